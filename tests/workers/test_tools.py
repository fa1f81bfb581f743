"""Tools answer where they apply, say so where they do not, and are measured and charged alike."""

from __future__ import annotations

import pytest

from orchestai.tasks.visible_examples import parse_examples
from orchestai.workers.base import Request, Signature, WorkerError
from orchestai.workers.tools import calculator, expressions, stdlib_search

ONE, TWO = Signature("step", ("x",)), Signature("step", ("a", "b"))


def run(code: str, *args: object) -> object:
    namespace: dict[str, object] = {}
    exec(code, namespace)
    return namespace["step"](*args)  # type: ignore[operator]


def search(examples: str, signature: Signature = ONE) -> str:
    return stdlib_search.answer(Request("any words", signature, parse_examples(examples)))


@pytest.mark.parametrize(
    ("examples", "arguments", "result"),
    [
        ("`'ab'` -> `'AB'`", ("cd",), "CD"),
        ("`[3, 1, 2]` -> `[1, 2, 3]`", ([9, 8],), [8, 9]),
        ("`'2024-03-15'` -> `'Friday'`", ("2024-03-16",), "Saturday"),
        ("`['a', 'b']` -> `'a-b'`", (["x", "y", "z"],), "x-y-z"),
        ("`'a b'` -> `'a_b'`", ("c d e",), "c_d_e"),
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


def test_every_expression_of_the_library_is_python() -> None:
    for expression in (*expressions.UNARY, *expressions.BINARY, *expressions.WITH_CONSTANT):
        compile(expression, "library", "eval")


@pytest.mark.parametrize(
    ("words", "value", "result"),
    [
        ("multiply it by 3 and add 1", 4, 13),
        ("take three times it plus 1", 4, 13),
        ("square it, then subtract 5 from the result", 4, 11),
        ("subtract it from 100", 30, 70),
        ("divide it by 2, rounding down", 9, 4),
        ("take the remainder after dividing it by 7", 23, 2),
        ("double it, negate it and take its absolute value", -3, 6),
        ("add 10 to it and multiply the result by 2", 1, 22),
    ],
)
def test_calculator_reads_arithmetic_in_words(words: str, value: int, result: int) -> None:
    assert run(calculator.answer(Request(f"{words} (for example `4` -> `13`)", ONE)), value) == result


@pytest.mark.parametrize(
    "words", ["double each of its numbers", "count its vowels", "add 3 apples to it", "", "and then"]
)
def test_calculator_refuses_what_is_not_all_arithmetic(words: str) -> None:
    with pytest.raises(WorkerError, match="calculator"):
        calculator.answer(Request(words, ONE))
