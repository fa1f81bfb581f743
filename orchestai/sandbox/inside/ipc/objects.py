"""Objects of the candidate as the tests see them: their code says what they are, and never what they equal."""

from __future__ import annotations

import builtins
from collections.abc import Callable, Iterator
from types import GeneratorType
from typing import Any

from .values import NotPlainError

Ask = Callable[..., Any]
"""(operation, object, *arguments) -> the candidate's answer."""

_READABLE = frozenset(("__name__", "__qualname__", "__doc__", "__module__"))


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
}


class Remote:
    """In the tests' process: an object that stayed with the candidate.

    Its attributes, items and texts are asked for. It equals itself, and, if it is a dataclass whose `__eq__` was
    generated, another of the same class with equal fields, which are compared here. Whatever else its own code would
    have to decide (`==`, `<`, `in`, methods that are given what to compare with) raises NotPlainError.
    """

    __slots__ = ("_ask", "_number")

    def __init__(self, ask: Ask, number: int) -> None:
        object.__setattr__(self, "_ask", ask)
        object.__setattr__(self, "_number", number)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name not in _READABLE:
            raise AttributeError(name)
        value = self._ask("get", self, name)
        return Method(value) if isinstance(value, RemoteFunction) else value

    def __setattr__(self, name: str, value: Any) -> None:
        self._ask("set", self, name, value)

    def __getitem__(self, key: Any) -> Any:
        return self._ask("item", self, key)

    def __len__(self) -> int:
        return int(self._ask("length", self))

    def __bool__(self) -> bool:
        return bool(self._ask("truth", self))

    def __iter__(self) -> Iterator[Any]:
        iterator = self._ask("iterate", self)
        if not isinstance(iterator, Remote):
            raise NotPlainError("an iterator that is none")
        while True:
            try:
                value = self._ask("next", iterator)
            except StopIteration:
                return
            yield value

    def __next__(self) -> Any:
        return self._ask("next", self)

    def __contains__(self, wanted: Any) -> bool:
        return any(value is wanted or value == wanted for value in self)

    def __str__(self) -> str:
        return builtins.str(self._ask("text", self))

    def __repr__(self) -> str:
        return builtins.str(self._ask("representation", self))

    def __reduce__(self) -> tuple[Any, ...]:
        return at_home, (self._number,)

    def __hash__(self) -> int:
        return hash(self._number)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        kind, content = self._ask("equality", self)
        if kind == "own":
            raise NotPlainError("its class has an __eq__ of its own, which tests in another process cannot trust")
        if kind == "identity" or not isinstance(other, Remote):
            return False
        other_kind, other_content = self._ask("equality", other)
        return bool(other_kind == "fields" and content == other_content)

    def _undecided(self, *_: Any) -> Any:
        raise NotPlainError("only code of the candidate could decide this, which tests in another process cannot trust")

    __lt__ = __le__ = __gt__ = __ge__ = _undecided
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = _undecided


class RemoteFunction(Remote):
    """A function or a class of the candidate."""

    __slots__ = ()

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        return self._ask("call", self, *args, **kwargs)

    def __instancecheck__(self, instance: Any) -> bool:
        return isinstance(instance, Remote) and bool(self._ask("is_instance", instance, self))


class Method:
    """A method of an object of the candidate, for calls without arguments: an argument could tell what is expected."""

    def __init__(self, function: RemoteFunction) -> None:
        self._function = function

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if args or kwargs:
            raise NotPlainError("a method of the candidate's object, called with arguments")
        return self._function()


class RemoteGenerator(Remote):
    """A generator of the candidate; `isinstance` says so."""

    __slots__ = ()
    __class__ = property(lambda self: GeneratorType)  # type: ignore[assignment]


_STAND_INS: dict[str, type[Remote]] = {"callable": RemoteFunction, "generator": RemoteGenerator}


def stand_in(ask: Ask) -> Callable[[int, str], Remote]:
    """What stands for the object of a number, always the same for the same number."""
    known: dict[int, Remote] = {}

    def remote(number: int, kind: str) -> Remote:
        if number not in known:
            known[number] = _STAND_INS.get(kind, Remote)(ask, number)
        return known[number]

    return remote
