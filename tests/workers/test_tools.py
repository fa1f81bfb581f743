"""Tools answer where they apply, say so where they do not, and are measured and charged alike."""

from __future__ import annotations

from typing import Any

import pytest

from orchestai.config import TasksConfig
from orchestai.execution.request import build_request
from orchestai.planner.baselines import whole_task
from orchestai.tasks.asked_task import asked_task
from orchestai.tasks.visible_examples import parse_examples
from orchestai.workers.base import Request, Signature, WorkerError
from orchestai.workers.tools import functions
from orchestai.workers.tools.registry import make_tool

calculate: Any = make_tool("calculator")
ONE, TWO = Signature("step", ("x",)), Signature("step", ("a", "b"))


def run(code: str, *args: object) -> object:
    namespace: dict[str, object] = {}
    exec(code, namespace)
    return namespace["step"](*args)  # type: ignore[operator]


def search(examples: str, signature: Signature = ONE) -> str:
    return functions.search(Request("any words", signature, parse_examples(examples)))


@pytest.mark.parametrize(
    ("examples", "arguments", "result"),
    [
        ("`'ab'` -> `'AB'`", ("cd",), "CD"),
        ("`[3, 1, 2]` -> `[1, 2, 3]`", ([9, 8],), [8, 9]),
        ("`'2024-03-15'` -> `'Friday'`", ("2024-03-16",), "Saturday"),
        ("`['a', 'b']` -> `'a-b'`", (["x", "y", "z"],), "x-y-z"),
        ("`5` -> `15`", (1,), 11),
    ],
)
def test_search_generalises_from_an_example(examples: str, arguments: tuple[object, ...], result: object) -> None:
    assert run(search(examples), *arguments) == result


def test_search_needs_every_example_and_equal_types() -> None:
    assert run(search("`[3, 1, 2]` -> `[3, 2, 1]`"), [1, 5, 2]) == [5, 2, 1], "one example fits sorting"
    assert run(search("`[3, 1, 2]` -> `[3, 2, 1]`, `[1, 5, 2]` -> `[5, 2, 1]`"), [4, 7]) == [7, 4]
    with pytest.raises(WorkerError, match="no expression"):
        search("`'abc'` -> `[1, 'x', None]`")
    with pytest.raises(WorkerError, match="visible example"):
        search("no example here")
    with pytest.raises(WorkerError, match="too large"):
        search("`10000000` -> `3`")


@pytest.mark.parametrize(
    ("words", "value", "result"),
    [
        ("multiply it by 3 and add 1", 4, 13),
        ("square it, then subtract 5 from the result", 4, 11),
        ("subtract it from 100", 30, 70),
        ("take the remainder after dividing it by 7", 23, 2),
        ("double it, negate it and take its absolute value", -3, 6),
        ("add 10 to it and multiply the result by 2", 1, 22),
    ],
)
def test_calculator_reads_arithmetic_in_words(words: str, value: int, result: int) -> None:
    assert run(calculate(Request(f"{words} (for example `4` -> `13`)", ONE)), value) == result


def test_calculator_refuses_what_is_not_all_arithmetic() -> None:
    for words in ("double each of its numbers", "count its vowels", "add 3 apples to it", "", "and then"):
        with pytest.raises(WorkerError, match="calculator"):
            pytest.fail(f"{words!r} is {calculate(Request(words, ONE))}")


# Functions are written where examples are evidence for them, and else declined.


WRITTEN = """
write a function g with g(2)=4, g(3)=9, g(4)=16 => (5) 25
Write a function foo(x): foo('abc') == 'cba', foo('hello') == 'olleh' => ('xy') 'yx'
"""
DECLINED = """
Write a function that implements the Levenshtein distance between two words
Write a function that counts the vowels of f('banana') == 6
Write a function mystery(x), mystery(2) is 3 times that, mystery(4) returns 5 or None and mystery(5) gives 7 if it can
Write a function mystery(a), mystery([3, 1, 2]) == [1, 2, 3]
Write a function odd_one(n), odd_one(4) == True and odd_one(5) == False
Schreibe eine Funktion, die eine E-Mail verschickt
"""


def written(words: str) -> tuple[str, str]:
    """Name and source of the function."""
    task = asked_task(words, None, TasksConfig())
    assert task.wants_program
    workflow = whole_task(task)
    request = build_request(task, workflow, workflow.subtasks[0], kind="dataflow")
    assert request.signature is not None
    return request.signature.name, functions.describe(request)


def test_examples_speak_for_a_function() -> None:
    for line in WRITTEN.strip().splitlines():
        words, calls = line.split(" => ")
        name, source = written(words)
        space: dict[str, Any] = {}
        exec(source, space)
        for call in calls.split("; "):
            arguments, result = call[: call.index(")") + 1], call[call.index(")") + 1 :]
            assert eval(f"{name}{arguments} == {result}", space), (words, source)


def test_chance_does_not() -> None:
    for words in DECLINED.strip().splitlines():
        with pytest.raises(WorkerError):
            pytest.fail(f"{words!r} is {written(words)}")
