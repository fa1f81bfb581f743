"""Threads that parse at once must not break each other: tests are read in threads while other plans are executed."""

from __future__ import annotations

import ast
import gc
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import pytest

from orchestai.text.syntax import parse_python

T = TypeVar("T")
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
