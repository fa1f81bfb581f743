"""Judging an answer to a maths question with math-verify, inside the sandbox.

The words of a model go through a LaTeX parser and computer algebra, which some of them hang (`9^{9^{9^9}}`) and which
guard themselves by signals, so that they only work in a main thread. In the sandbox a hang costs its own verdict alone.
"""

from __future__ import annotations

import re
from fractions import Fraction

from orchestai.extras import how_to_install
from orchestai.outcome import Outcome, Scored, Unscorable
from orchestai.sandbox import Program, Sandbox
from orchestai.tasks.task import Task
from orchestai.text.delimited import enclosed

_LONGEST = 1000
_DECIMAL = re.compile(r"[-+]?(\d{1,100}|\d{1,3}(,\d{3}){1,30})(\.\d{1,100})?")
_BETWEEN_VALUES = re.compile(r"=|\\vee|\\lor|\\text|[;{}]|\b(?:or|and)\b|,(?!\d{3}(?!\d))")
_FRACTION = re.compile(r"\\[dt]?frac\s*\{\s*(-?\d{1,100})\s*\}\s*\{\s*(\d{1,100})\s*\}")
_QUOTIENT = re.compile(r"-?\d{1,100}/0*[1-9]\d{0,99}", re.ASCII)
_BRACE = re.compile(r"(?<!\\)[{}]")
_HASHES = re.compile(r"####[ \t]*([^\n]+)")
_BOXED = re.compile(r"\\f?boxed\s*\{")
_TAG = re.compile("<answer>", re.IGNORECASE), re.compile("</answer>", re.IGNORECASE)
_JUDGE = """\
from math_verify import parse, verify

def agrees(reference, answer):
    reference, answer = parse(reference, parsing_timeout=None), parse(answer, parsing_timeout=None)
    return bool(reference and answer) and verify(reference, answer, timeout_seconds=None)
"""
_TESTS = """\
import unittest

class Answer(unittest.TestCase):
    def test_answer(self):
        self.assertTrue(any(agrees(reference, {answer!r}) for reference in {references!r}))
"""


async def math_reward_fn(task: Task, answer: str, sandbox: Sandbox) -> Outcome:
    """1 if the final answer in a text means the same as one of the task's reference answers, else 0.

    Plain numbers are compared exactly, without the sandbox. Where one is wanted, an answer that is marked as such and
    names several is wrong, whichever of them computer algebra would take (`71 = 72`, `71 or 72`).

    Set `sandbox.preload: [math_verify]`: it takes a third of a second to import.
    """
    if not task.answers:
        return Unscorable("task", f"{task.task_id} has no reference answer")
    final = final_answer(answer)
    if not final:
        return Scored(0.0)
    number, numbers = _number(final), [_number(reference) for reference in task.answers]
    if None not in numbers:
        if number is not None:
            return Scored(float(number in numbers))
        if len(_values(marked_answer(answer) or "")) > 1:
            return Scored(0.0)
    if not sandbox.can_import("math_verify"):
        return Unscorable("scorer", how_to_install(ModuleNotFoundError(name="math_verify")) or "")
    references = [rf"\boxed{{{reference}}}" for reference in task.answers]
    tests = _TESTS.format(answer=final, references=references)
    return (await sandbox.arun(Program(_JUDGE, tests, "agrees"))).outcome()


def final_answer(text: str) -> str:
    r"""The part of a text that answers, ready for math-verify; empty where there is none.

    That is the last `\boxed{...}`; else what the last `<answer>` tag holds, or what follows the last `####` (GSM8K);
    else the end of the text, of which math-verify takes the last expression.
    """
    text = text.replace("\0", "")
    marked = marked_answer(text)
    if marked is None:
        return text.strip()[-_LONGEST:]
    return rf"\boxed{{{marked}}}" if last_boxed(text) else marked


def marked_answer(text: str) -> str | None:
    """What is boxed, tagged or behind `####`, as `final_answer` chooses; None where nothing is."""
    if boxed := last_boxed(text):
        return boxed[:_LONGEST]
    marked = list(enclosed(text, *_TAG)) or _HASHES.findall(text)
    return marked[-1].strip()[:_LONGEST] if marked else None


def _values(answer: str) -> set[Fraction]:
    """The plain numbers and fractions among the values that an answer names."""
    found = (_value(part) for part in _BETWEEN_VALUES.split(_FRACTION.sub(r"\1/\2", answer)))
    return {number for number in found if number is not None}


def _value(text: str) -> Fraction | None:
    plain = text.strip().strip("$")
    return Fraction(plain) if _QUOTIENT.fullmatch(plain) else _number(text)


def _number(text: str) -> Fraction | None:
    """The value of a plain decimal number, boxed or not; None of anything else."""
    plain = (last_boxed(text) or text).strip().strip("$").removesuffix(".").strip()
    return Fraction(plain.replace(",", "")) if _DECIMAL.fullmatch(plain) else None


def last_boxed(text: str) -> str | None:
    r"""What the last `\boxed{...}` holds whose braces close; None where there is none."""
    starts = [match.end() for match in _BOXED.finditer(text)]
    if not starts:
        return None
    ends: dict[int, int] = {}
    opened: list[int] = []
    for brace in _BRACE.finditer(text, starts[0] - 1):
        if brace[0] == "{":
            opened.append(brace.end())
        elif opened:
            ends[opened.pop()] = brace.start()
    return next((text[start : ends[start]].strip() for start in reversed(starts) if start in ends), None)
