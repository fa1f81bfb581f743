"""Objects that stay in the candidate's process, and what may be asked of them there; see `stand_ins`."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from .values import NotPlainError

Ask = Callable[..., Any]
"""(operation, object, *arguments) -> the candidate's answer."""


class Objects:
    """In the candidate's process: objects by number, and what may be asked of them."""

    def __init__(self) -> None:
        self._objects: list[Any] = []
        self._numbers: dict[int, int] = {}

    def number(self, value: Any) -> int:
        """The number of an object; it is kept from now on."""
        if id(value) not in self._numbers:
            self._numbers[id(value)] = len(self._objects)
            self._objects.append(value)
        return self._numbers[id(value)]

    def __getitem__(self, number: int) -> Any:
        return self._objects[number]


def at_home(number: int) -> Any:
    """Stands in a pickle for an object that only the candidate's process has."""
    raise NotPlainError(f"object {number} is not here")


def equality(value: Any) -> tuple[str, Any]:
    """How an object compares: by `identity`, by `fields` (its class and their values), or by its `own` code."""
    cls = type(value)
    if cls.__eq__ is object.__eq__ or isinstance(value, type):
        return "identity", None
    parameters = getattr(cls, "__dataclass_params__", None)
    if parameters is not None and parameters.eq and "__eq__" in cls.__dict__:
        import dataclasses  # heavy, and seldom needed

        compared = [field.name for field in dataclasses.fields(value) if field.compare]
        return "fields", (cls, [getattr(value, name) for name in compared])
    return "own", None


def state(value: Any) -> list[Any]:
    """What an object is and holds, as `copy` would take it."""
    cls = type(value)
    _, args, *more = value.__reduce_ex__(2)
    args = [arg for arg in args if not isinstance(arg, type)]
    return [
        (cls.__module__, cls.__qualname__),
        args,
        *(list(part) if hasattr(part, "__next__") else part for part in more),
    ]


def _special(value: Any, name: str, *args: Any) -> Any:
    if not hasattr(type(value), name):
        raise TypeError(f"{type(value).__name__!r} object does not support {name}")
    return getattr(value, name)(*args)


def _fields(value: Any) -> list[str]:
    import dataclasses  # heavy, and seldom needed

    return [field.name for field in dataclasses.fields(value)]


def _parameters(function: Any) -> list[tuple[str, int, tuple[Any, ...]]]:
    """Name, kind and, if there is one, default of each parameter."""
    import inspect  # heavy, and seldom needed

    return [
        (one.name, int(one.kind), () if one.default is one.empty else (one.default,))
        for one in inspect.signature(function).parameters.values()
    ]


OPERATIONS: dict[str, Callable[..., Any]] = {
    "call": lambda function, /, *args, **kwargs: function(*args, **kwargs),
    "get": getattr,
    "set": setattr,
    "item": lambda value, key: value[key],
    "length": len,
    "truth": bool,
    "iterate": iter,
    "next": next,
    "text": str,
    "representation": repr,
    "equality": equality,
    "is_instance": isinstance,
    "is_subclass": issubclass,
    "fields": _fields,
    "parameters": _parameters,
    "special": _special,
    "classes": lambda value: [(cls.__module__, cls.__qualname__) for cls in type(value).__mro__],
    "bases": lambda cls: [(base.__module__, base.__qualname__) for base in cls.__mro__],
    "state": state,
    "deepcopy": copy.deepcopy,
}
