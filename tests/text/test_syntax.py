"""Threads that parse at once must not break each other: tests are read in threads while other plans are executed."""

from __future__ import annotations

import ast
import gc
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import pytest

from orchestai.tasks.visible_examples import parse_examples
from orchestai.text.syntax import parse_python

T = TypeVar("T")
EXAMPLES = "For example, " + ", ".join(f"`[{i}, 'a']` -> `['a', [{i}]]`" for i in range(200))
SOURCE = "x = (1 + 2) * [3, f(4)]\n" * 30


@pytest.fixture
def switching() -> Iterator[None]:
    """Lets other threads run at every garbage collection, and collects often."""
    threshold = gc.get_threshold()

    def let_others_run(phase: str, info: object) -> None:
        time.sleep(0)

    gc.callbacks.append(let_others_run)
    gc.set_threshold(50)
    yield
    gc.set_threshold(*threshold)
    gc.callbacks.remove(let_others_run)


def below(frames: int, parse: Callable[[], T]) -> T:
    """What is parsed from `frames` calls further down: the depth is what CPython's check compares."""
    return below(frames - 1, parse) if frames else parse()


def test_threads_at_different_depths_parse_at_once(switching: None) -> None:
    with ThreadPoolExecutor(4) as pool:
        trees = list(pool.map(lambda frames: below(frames, lambda: parse_python(SOURCE)), [0, 30, 60, 90] * 20))
    assert {ast.unparse(tree) for tree in trees} == {ast.unparse(ast.parse(SOURCE))}


def test_and_read_literals_at_once(switching: None) -> None:
    """The examples of tasks, while the tests of others are read: this ended a collection."""
    with ThreadPoolExecutor(4) as pool:
        values = list(pool.map(lambda frames: below(frames, lambda: parse_examples(EXAMPLES)), [0, 30, 60, 90] * 20))
    assert {len(examples) for examples in values} == {200}


def test_an_expression_is_parsed_as_one() -> None:
    assert isinstance(parse_python("1 + 2", "eval").body, ast.BinOp)
    with pytest.raises(SyntaxError):
        parse_python("x = 1", "eval")
