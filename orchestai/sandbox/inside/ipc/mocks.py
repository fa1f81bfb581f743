"""Mocks of the tests: what the program may use of them, and what they say once it has answered with them."""

from __future__ import annotations

import sys
from collections import deque
from functools import cache
from types import FunctionType
from typing import Any

from .values import NotPlainError

_SAY = {
    **{"__bool__": True, "__len__": 0, "__contains__": False},
    **{"__int__": 1, "__index__": 1, "__float__": 1.0, "__complex__": 1j},
}
"""What mocks say of themselves where their tests did not have them say something else."""

_HOLDERS = (list, tuple, set, frozenset, dict, deque)


class Hushed:
    """A method of a mock by which it says something to the program, and nothing to the tests."""

    def __init__(self, said: Any) -> None:
        self.said = said

    def __call__(self, *_: Any) -> Any:
        raise NotPlainError("a mock with which the program answers agrees with everything, which tests cannot trust")


def is_mock(value: Any) -> bool:
    mock = sys.modules.get("unittest.mock")
    return mock is not None and issubclass(type(value), mock.NonCallableMock)


def is_open(thing: Any, name: str) -> bool:
    """Whether the program may read and set an attribute: not what was called, what is expected, what it is to do."""
    if name.startswith("__"):
        return name in vars(thing)
    return not name.startswith(("_mock", "_spec", "assert")) and name not in _own_names()


def hush(answer: Any) -> None:
    """Have what mocks make of themselves, now or later, decide nothing: `task_func(mock).is_close(3)` would be a yes.

    Args:
        answer: a thing of the tests with which the program answers: a mock, a function made of one, or what holds them.
    """
    cls = type(answer)  # not `isinstance`: mocks say that they are of other classes
    if issubclass(cls, _HOLDERS):
        for one in answer.values() if issubclass(cls, dict) else answer:
            hush(one)
        return
    mock = vars(answer).get("mock") if issubclass(cls, FunctionType) else answer
    if is_mock(mock) and "_get_child_mock" not in vars(mock):
        make_child = mock._get_child_mock
        vars(mock)["_get_child_mock"] = lambda **facts: _hushed(make_child(**facts))
        for child in (*mock._mock_children.values(), mock._mock_return_value):
            if is_mock(child):
                _hushed(child)


def _hushed(child: Any) -> Any:
    hush(child)
    for name, said in _SAY.items():
        told = child._mock_children.get(name)
        is_default = told is None or (is_mock(told) and told._mock_return_value == said and not told.side_effect)
        if is_default and (name == "__bool__" or name in vars(type(child))):
            setattr(type(child), name, Hushed(said))  # each mock has a class of its own
    return child


@cache
def _own_names() -> frozenset[str]:
    """Names that mocks have of themselves."""
    return frozenset(dir(sys.modules["unittest.mock"].MagicMock()))
