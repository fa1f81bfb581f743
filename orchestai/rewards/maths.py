"""Judging an answer to a maths question with math-verify, inside the sandbox.

The words of a model go through a LaTeX parser and computer algebra, which some of them hang (`9^{9^{9^9}}`) and which
guard themselves by signals, so that they only work in a main thread. In the sandbox a hang costs its own verdict alone.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from decimal import Decimal, DivisionByZero, InvalidOperation
from fractions import Fraction

from orchestai.installed import how_to_install
from orchestai.outcome import Outcome, Scored, Unscorable
from orchestai.rewards.answers import tagged_answer
from orchestai.sandbox import Program, Sandbox
from orchestai.tasks.task import Task
from orchestai.text.spoken import enclosed

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
    return (await sandbox.arun(Program(_JUDGE, tests, "agrees", "sealed"))).outcome()


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


NO_NUMBER = "there is no number in the answer {!r}"
RELATIVE = Decimal("1e-6")
"""Relative error that is always allowed, for numbers that were computed in binary."""
_SCALES = {"thousand": 3, "million": 6, "billion": 9, "trillion": 12}
_LONGEST_NUMBER = 60
_NUMBER = re.compile(
    r"(?<![\w.])(?P<sign>(?<!\w)[-+−])?[$€£]?"
    rf"(?P<digits>\d{{1,3}}(?:,\d{{3}}){{1,15}}(?!\d)|\d{{1,{_LONGEST_NUMBER}}}(?!\d))?(?P<decimals>\.\d{{1,{_LONGEST_NUMBER}}})?"
    r"(?P<power>[eE][-+]?\d{1,2}(?!\w))?(?:/(?P<under>\d{1,20})(?![\d/]))?"
    rf"(?:\s(?P<scale>{'|'.join(_SCALES)})\b)?"
)


def numeric_reward_fn(task: Task, answer: str, sandbox: Sandbox) -> Outcome:
    """1 if the answer's number is that of one of the task's reference answers, else 0.

    The answer's number is the last one of what is marked as the answer (`\\boxed{}`, `<answer>`, `####`), else of the
    whole text; the reference's is its first. They agree within `task.details["tolerance"]`, an absolute error in the
    reference's unit. Without it: within a millionth of the reference, or where the reference has decimals and the
    answer more of them, if the answer rounds to the reference (`3.14159` is `3.14`, but `3` is not, and `12.4` is not
    `12`). What stands around a number does not count: `$1,200.50`, `1200.5 USD` and `1.2005 thousand` are equal, and
    so are `50%` and `50`.
    """
    references = [number for text in task.answers if (number := first_number(text)) is not None]
    if not references:
        return Unscorable("task", f"{task.place}: none of its answers has a number")
    number = answered_number(answer)
    if number is None:
        return Scored(0.0)
    tolerance = task.details.get("tolerance")
    allowed = None if tolerance is None else Decimal(str(tolerance))
    return Scored(float(any(_agree(number, reference, allowed) for reference in references)))


def answered_number(answer: str) -> Decimal | None:
    """The number that an answer gives: the last one of what is marked, else of the whole; None where there is none."""
    marked = tagged_answer(answer) or marked_answer(answer)
    numbers = list(_numbers(answer if marked is None else marked))
    return numbers[-1] if numbers else None


def first_number(text: str) -> Decimal | None:
    """The value of the first number in a text; None where there is none."""
    return next(_numbers(text), None)


def _numbers(text: str) -> Iterator[Decimal]:
    for match in _NUMBER.finditer(text):
        if not (match["digits"] or match["decimals"]):
            continue
        sign = "-" if match["sign"] in ("-", "−") else ""
        number = Decimal(f"{sign}{(match['digits'] or '0').replace(',', '')}{match['decimals'] or ''}")
        if match["power"]:
            number = number.scaleb(int(match["power"][1:]))
        if match["under"]:
            try:
                number /= Decimal(match["under"])
            except (DivisionByZero, InvalidOperation):
                continue
        yield number.scaleb(_SCALES.get(match["scale"] or "", 0))


def _agree(number: Decimal, reference: Decimal, allowed: Decimal | None) -> bool:
    error = abs(number - reference)
    if allowed is not None:
        return error <= allowed
    if error <= RELATIVE * abs(reference):
        return True
    decimals, given = (-int(value.as_tuple().exponent) for value in (reference, number))
    return 0 < decimals < given and error <= Decimal((0, (5,), -decimals - 1))
