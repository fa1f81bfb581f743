"""Whatever a model writes, reading it takes time in proportion to its length.

An expression that looks for the same end from every beginning takes 16 s of everybody's time on an answer of 60 kB, so
each parser of models' words reads texts that are made of the marks it looks for, repeated: eight times as much text
may take it eight times as long, with room for a busy machine, but not the sixty-four times of a square.
"""

import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from orchestai.agents import workflow
from orchestai.agents.repository import PatchError, apply_patch, find_blocks, touched_paths
from orchestai.agents.tools import find_calls
from orchestai.config import PlannerConfig
from orchestai.outcome import Unscorable
from orchestai.planner.language.plan_text import read_plan
from orchestai.rewards import answers, citations, maths
from orchestai.tasks import programs
from orchestai.tasks.program_source import reply_program
from orchestai.tasks.visible_examples import clean, parse_examples
from orchestai.text.spoken import spoken
from orchestai.workers.base import Request, WorkerError
from orchestai.workers.prompting.prompts import without_example
from orchestai.workers.tools import everyday
from orchestai.workflow import WorkflowError

_SMALL, _GROWTH = 1_000, 8
_MOST = 3 * _GROWTH
_NEGLIGIBLE_S = 0.001


def _patched(text: str) -> None:
    with suppress(PatchError):
        apply_patch({}, text)


def _planned(text: str) -> None:
    with suppress(WorkflowError):
        read_plan(text, "sort the numbers", ["a"], PlannerConfig())


def _reversed(text: str) -> None:
    with suppress(WorkerError):
        everyday.answer(Request(f"reverse: {text}"), "texts")


PARSERS: dict[str, tuple[Callable[[str], object], list[str]]] = {
    "fenced": (programs.fenced, ["```", "`", "\n", "\n ", "\ndef", "```py\n", "x"]),
    "spoken": (spoken, ["<", "think", "_a", ">", "</think>", "x:"]),
    "unfenced": (programs.unfenced, ["```", "\n", "(", "'''"]),
    "tagged": (lambda text: workflow.all_tagged(text, "a"), ["<a>", "</a>", "<A>", "<"]),
    "program": (workflow.program, ["```\n", "\n ", "(", "x\n"]),
    "tool calls": (lambda text: find_calls(text, []), ["<tool_call>", "</tool_call>", "{", '"a":', "["]),
    "edit blocks": (
        lambda text: list(find_blocks(text)),
        ["a", "#", " ", "`*", "\n", "a\n<<<<<<< SEARCH\n", "=======\n", ">>>>>>> REPLACE\n"],
    ),
    "diff": (touched_paths, ["+++ ", "--- ", "\n", "rename from ", "\t"]),
    "patch": (_patched, ["a\n", "#", "\n<<<<<<< SEARCH\n", "=======\n"]),
    "plan": (_planned, ["{", '{"a":', "```", " ", "[", '"', '{"a":[1,', "}"]),
    "boxed": (maths.last_boxed, ["\\boxed{", "{", "}", "\\", " "]),
    "final answer": (maths.final_answer, ["\\boxed{", "<answer>", "####", " ", "}"]),
    "number": (maths.answered_number, ["1", ",111", ".", "-", "/1"]),
    "tagged answer": (answers.tagged_answer, ["<answer>", "</answer>", "x"]),
    "answer": (answers.normalize_answer, ["a ", "the", " ", "\u0301"]),
    "report": (lambda text: citations.judge_report(text, {"a": "b"}, ["x"]), ["[", "]", "[a]", " ", ".", "\n", "! "]),
    "reason": (lambda text: Unscorable("worker", text).group, ["'", '"', "a", "1", "-", ". ", ":"]),
    "instruction": (clean, ["(", ")", "`", " ", "and ", ","]),
    "examples": (parse_examples, ["`", "`a` ", "-> ", "(", "x"]),
    "example at the end": (without_example, ["(", "`", ")", " "]),
    "request": (_reversed, ["'", "a ", ", ", "\n", ": ", '"', "„"]),
    "reply": (lambda text: reply_program(text, "f", 1), ["```\n", "[PYTHON]", "def f():\n", "@a\n"]),
}


def _texts(marks: list[str], length: int) -> Iterator[str]:
    for a, b in itertools.permutations(marks, 2):
        yield a * (length // len(a) // 2) + b * (length // len(b) // 2)
        yield (a + b) * (length // len(a + b))
    for a in marks:
        yield a * (length // len(a))


def _cpu_s(parse: Callable[[str], object], text: str) -> float:
    begin = time.thread_time()
    parse(text)
    return time.thread_time() - begin


@pytest.mark.parametrize("name", PARSERS)
def test_time_grows_with_the_length_of_what_a_model_wrote_and_not_with_its_square(name: str) -> None:
    parse, marks = PARSERS[name]
    slow = []
    for small, large in zip(_texts(marks, _SMALL), _texts(marks, _GROWTH * _SMALL), strict=True):
        allowed = _MOST * max(_cpu_s(parse, small), _NEGLIGIBLE_S)
        if _cpu_s(parse, large) > allowed:
            again = _MOST * max(_cpu_s(parse, small), _cpu_s(parse, small), _NEGLIGIBLE_S)
            if (taken := min(_cpu_s(parse, large), _cpu_s(parse, large))) > again:
                slow.append(f"{small[:20]!r}...{small[-20:]!r}: {taken:.2f} s of {again:.2f}")
                break
    assert not slow
