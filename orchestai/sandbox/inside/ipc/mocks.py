"""Mocks of the tests: what the program may use of them, and what they say once it has answered with them."""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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
    """A method of a mock by which it says something to the program, and nothing to the tests unless they tell it to."""

    def __init__(self, said: Any) -> None:
        self._said = said

    def to_program(self) -> Any:
        return vars(self).get("return_value", self._said)

    def __call__(self, *_: Any) -> Any:
        if "return_value" in vars(self):
            return vars(self)["return_value"]
        raise NotPlainError("a mock with which the program answers agrees with everything, which tests cannot trust")


class _HushedMaker:
    """Makes what a hushed mock makes of itself; by its class, which no program can put there, such mocks are known."""

    def __init__(self, make_child: Callable[..., Any]) -> None:
        self._make_child = make_child

    def __call__(self, **facts: Any) -> Any:
        child = self._make_child(**facts)
        hush(child)
        return child


class _HushedChildren(dict[str, Any]):
    """What a hushed mock has made or been given: attributes of an autospec are not made as others are."""

    def __setitem__(self, name: str, child: Any) -> None:
        super().__setitem__(name, child)
        hush(child)


def is_mock(value: Any) -> bool:
    mock = sys.modules.get("unittest.mock")
    return mock is not None and issubclass(type(value), mock.NonCallableMock)


def method_of(mock: Any, name: str) -> Any:
    """What a mock has as a special method, or is yet to make one of, as it does when it is asked for it."""
    return next((vars(cls)[name] for cls in type(mock).__mro__ if name in vars(cls)), None)


def is_open(thing: Any, name: str) -> bool:
    """Whether the program may read and set an attribute: not what was called, what is expected, what it is to do."""
    if name.startswith(("_mock", "_spec", "assert")) or name in _own_names():
        return False
    return not name.startswith("__") or name in vars(thing) or name in thing._mock_children


def hush(answer: Any) -> None:
    """Have what mocks say without having been told decide nothing: `task_func(mock).is_close(3)` would be a yes.

    Args:
        answer: what the program answers with: a mock, a function made of one, or what holds them. What mocks make of
            themselves, now or later, is hushed as well.
    """
    if "unittest.mock" not in sys.modules:
        return
    seen: set[int] = set()
    waiting = [answer]
    while waiting:
        one = waiting.pop()
        cls = type(one)  # not `isinstance`: mocks say that they are of other classes
        if id(one) in seen:
            continue
        seen.add(id(one))
        if issubclass(cls, _HOLDERS):
            waiting += one.values() if issubclass(cls, dict) else one
        elif issubclass(cls, FunctionType):
            waiting.append(vars(one).get("mock"))
        elif is_mock(one):
            if type(vars(one).get("_get_child_mock")) is not _HushedMaker:
                vars(one)["_get_child_mock"] = _HushedMaker(one._get_child_mock)
                vars(one)["_mock_children"] = _HushedChildren(one._mock_children)
            waiting += [*one._mock_children.values(), one._mock_return_value]
            for name in _SAY:
                if not _is_told(one, name):
                    setattr(cls, name, Hushed(_SAY[name]))  # each mock has a class of its own


@contextmanager
def asked_by_program() -> Iterator[None]:
    """Methods that mocks come to have meanwhile are there because the program asked, and not to say what tests want."""
    proxy = getattr(sys.modules.get("unittest.mock"), "MagicProxy", None)
    if proxy is None:
        yield
        return
    create_mock = proxy.create_mock

    def create_untold(self: Any) -> Any:
        method = create_mock(self)
        vars(method)["_mock_untold"] = True
        return method

    proxy.create_mock = create_untold
    try:
        yield
    finally:
        proxy.create_mock = create_mock


def _is_told(mock: Any, name: str) -> bool:
    """Whether tests had a mock say something of itself, or it cannot say anything."""
    method = method_of(mock, name)
    if method is None:  # without a `__bool__`, what has a length is true by that
        return name != "__bool__" or (method_of(mock, "__len__") is not None and _is_told(mock, "__len__"))
    if type(method) is sys.modules["unittest.mock"].MagicProxy:
        return False
    if not is_mock(method) or "_mock_untold" not in vars(method):
        return True
    return bool(method.side_effect) or method._mock_return_value != _SAY[name]


@cache
def _own_names() -> frozenset[str]:
    """Names that mocks have of themselves; `dir` of a mock would leave out those with an underscore."""
    mock = sys.modules["unittest.mock"]
    classes = (mock.Mock, mock.MagicMock, mock.AsyncMock, mock.NonCallableMock, mock.NonCallableMagicMock)
    own = {name for cls in classes for name in (*dir(cls), *dir(type(cls())))}
    return frozenset(own | {name for cls in classes for name in vars(cls()) if not name.startswith("__")})
