"""Objects of the candidate as the tests see them: their code says what they are, and never what they equal.

No answer of the candidate decides by itself: a yes or no, or a number that a tolerance would accept, is refused of what
was given an argument, and of what came of that; equality is that of what the objects hold, which is compared here; and
no failure of the tests is swallowed.
"""

from __future__ import annotations

import builtins
import sys
import types
from collections.abc import Callable, Iterator
from pathlib import PurePath
from typing import Any

from .arrays import is_array_class
from .objects import at_home, state
from .values import ALLOWED, NotPlainError, as_member
from .verdicts import Elsewhere, inside, pleases, told

Ask = Callable[..., Any]
"""(operation, object, *arguments) -> the candidate's answer."""

_BUILTIN = {
    cls.__name__: cls
    for cls in (
        *(map, filter, zip, enumerate, reversed, type),
        *(types.GeneratorType, types.FunctionType, types.BuiltinFunctionType, types.MethodType),
    )
}
_READABLE = frozenset(
    (
        *("__name__", "__qualname__", "__doc__", "__module__", "__dict__", "__code__", "__annotations__"),
        *("__defaults__", "__kwdefaults__", "__wrapped__", "__func__"),
    )
)
_NEVER = frozenset(("builtins", "unittest", "__test__"))


_FACTS = frozenset(("classes", "bases", "equality", "state", "fields", "parameters"))
"""Operations that only the tests' process itself asks for."""


def _unguessed(value: Any) -> Any:
    """An answer to what was given an argument. It must say more than that it pleases, and so must what comes of it."""
    if pleases(value):
        raise NotPlainError(f"the program's own code says {value!r} of what it was given, which tests cannot trust")
    for one in inside(value):
        if issubclass(type(one), Remote):
            object.__setattr__(one, "_ask", _Wary(object.__getattribute__(one, "_ask")))
    return told(value)


class _Wary:
    """Asks an object that came of what was given an argument."""

    def __init__(self, ask: Ask) -> None:
        self._ask: Ask = ask._ask if isinstance(ask, _Wary) else ask

    def __call__(self, operation: str, *args: Any, **kwargs: Any) -> Any:
        value = self._ask(operation, *args, **kwargs)
        return value if operation in _FACTS else _unguessed(value)


def _question(name: str) -> Callable[..., Any]:
    def method(self: Any, /, *args: Any) -> Any:
        value = self._ask("special", self, name, *args)
        return _unguessed(value) if args else value

    return method


_multiply, _raise = map(_question, ("__mul__", "__pow__"))


def _not_negative(value: Any) -> Any:
    """A size or a square, whatever the program says that it is: below 0 it would be within every tolerance."""
    return value if issubclass(type(value), Elsewhere) or not hasattr(value, "__abs__") else abs(value)


class Remote(Elsewhere):
    """In the tests' process: an object that stayed with the candidate.

    Its attributes, items, texts and class are asked for. It equals itself, and another by what both hold, where its
    class says how it compares. What its own code would decide by itself (`<`) raises NotPlainError.
    """

    __slots__ = ("_ask", "_number")

    def __init__(self, ask: Ask, number: int) -> None:
        object.__setattr__(self, "_ask", ask)
        object.__setattr__(self, "_number", number)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name not in _READABLE:
            raise AttributeError(name)
        return as_member(self._ask("get", self, name))

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

    def __deepcopy__(self, _: Any) -> Any:
        return self._ask("deepcopy", self)

    def __hash__(self) -> int:
        return hash(self._number)

    def __delattr__(self, name: str) -> None:
        self._ask("special", self, "__delattr__", name)

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        kind, content = self._ask("equality", self)
        if kind == "own":
            if issubclass(type(other), Remote):
                return bool(self._ask("state", self) == self._ask("state", other))
            if self.__class__ is type(other):
                return bool(self._ask("state", self) == state(other))
            raise NotPlainError("its class has an __eq__ of its own, which tests in another process cannot trust")
        if not issubclass(type(other), Remote):
            return False
        return bool(kind == "fields" and self._ask("equality", other) == (kind, content))

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        """What the candidate answers is not heard: it could swallow a failed assertion."""
        self._ask("special", self, "__exit__", None if error is None else type(error), error, None)

    def __abs__(self) -> Any:
        return _not_negative(self._ask("special", self, "__abs__"))

    def __mul__(self, other: Any) -> Any:
        return _not_negative(_multiply(self, other)) if other is self else _multiply(self, other)

    def __pow__(self, *exponent: Any) -> Any:
        is_even = isinstance(exponent[0], (int, float)) and exponent[0] % 2 == 0
        return _not_negative(_raise(self, *exponent)) if is_even else _raise(self, *exponent)

    __enter__ = _question("__enter__")
    __neg__, __float__, __int__ = map(_question, ("__neg__", "__float__", "__int__"))
    __index__, __round__, __complex__ = map(_question, ("__index__", "__round__", "__complex__"))
    __setitem__, __delitem__ = map(_question, ("__setitem__", "__delitem__"))
    __add__, __sub__, __truediv__ = map(_question, ("__add__", "__sub__", "__truediv__"))
    __radd__, __rsub__, __rmul__, __rtruediv__ = map(_question, ("__radd__", "__rsub__", "__rmul__", "__rtruediv__"))
    __matmul__, __floordiv__, __mod__ = map(_question, ("__matmul__", "__floordiv__", "__mod__"))
    __and__, __or__, __xor__ = map(_question, ("__and__", "__or__", "__xor__"))

    def _undecided(self, *_: Any) -> Any:
        raise NotPlainError("only code of the candidate could decide this, which tests in another process cannot trust")

    __lt__ = __le__ = __gt__ = __ge__ = _undecided


class RemoteFunction(Remote):
    """A function or a class of the candidate."""

    __slots__ = ()

    __doc__ = property(lambda self: self._ask("get", self, "__doc__"))  # type: ignore[assignment]

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        return self._ask("call", self, *args, **kwargs)

    def __instancecheck__(self, instance: Any) -> bool:
        return isinstance(instance, Remote) and bool(self._ask("is_instance", instance, self))

    def as_method(self) -> Method:
        """What it is as an attribute."""
        return Method(self)

    @property
    def __signature__(self) -> Any:
        import inspect  # heavy, and seldom needed

        kinds = list(inspect._ParameterKind)  # type: ignore[attr-defined]
        return inspect.Signature(
            [
                inspect.Parameter(str(name), kinds[kind], default=default[0] if default else inspect.Parameter.empty)
                for name, kind, default in self._ask("parameters", self)
            ]
        )

    def __subclasscheck__(self, cls: Any) -> bool:
        return isinstance(cls, RemoteFunction) and bool(self._ask("is_subclass", cls, self))

    @property
    def __bases__(self) -> tuple[type, ...]:
        cls = _library_class(self._ask("bases", self))
        return () if cls is None else (cls,)


class RemoteGenerator(Remote):
    """A generator of the candidate; `isinstance` says so."""

    __slots__ = ()

    def __iter__(self) -> Iterator[Any]:
        return self

    __class__ = property(lambda self: types.GeneratorType)  # type: ignore[assignment]


class RemoteDataclass(Remote):
    """An object of a dataclass of the candidate, as far as `dataclasses.fields` and `asdict` see it."""

    __slots__ = ()

    @property
    def __dataclass_fields__(self) -> dict[str, Any]:
        import dataclasses  # heavy, and seldom needed

        names = [str(name) for name in self._ask("fields", self)]
        return {field.name: field for field in dataclasses.fields(dataclasses.make_dataclass("made", names))}


_KINDS: dict[str, type[Remote]] = {
    "callable": RemoteFunction,
    "dataclass": RemoteDataclass,
    "generator": RemoteGenerator,
}


class Method:
    """A method of an object of the candidate."""

    def __init__(self, function: RemoteFunction) -> None:
        self._function = function

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        value = self._function(*args, **kwargs)
        return _unguessed(value) if args or kwargs else value

    def __getattr__(self, name: str) -> Any:
        return getattr(self._function, name)

    def __reduce__(self) -> Any:
        return self._function.__reduce__()


def stand_ins(ask: Ask, own: Callable[[int], Any] | None = None) -> Callable[[int, str], Any]:
    """What stands for the object of a number, always the same for the same number.

    Args:
        own: the thing of the tests that the program has a stand-in for, asked for by -1 - its number; None in `split`
            isolation, where the program has no such, and its word is not taken for the class of an object.
    """
    known: dict[int, Remote] = {}
    kinds: dict[Any, type[Remote]] = {}

    def remote(number: int, kind: str) -> Any:
        if number < 0 and own is not None:
            return own(-1 - number)
        if number not in known and own is None:
            known[number] = _KINDS.get(kind, Remote)(ask, number)
        elif number not in known:
            base = _KINDS.get(kind, Remote)
            known[number] = base(ask, number)
            classes = ask("classes", known[number])
            facts = base, *(classes[0] if type(classes) is list and classes else ())
            if facts not in kinds:
                kinds[facts] = _kind(base, classes)
            known[number] = kinds[facts](ask, number)
        return known[number]

    return remote


def _kind(base: type[Remote], classes: Any) -> type[Remote]:
    """A class of stand-ins for the objects of a class: it has that one's name, and `isinstance` finds a library's."""
    (module, name), *_ = classes
    library = _library_class(classes)
    members: dict[str, Any] = {"__slots__": (), "__doc__": vars(base)["__doc__"]}
    if module != "builtins":
        members |= {"__module__": str(module), "__qualname__": str(name)}
    if library is not None:
        members["__class__"] = property(lambda _: library)
    return type(str(name).rpartition(".")[2] if module != "builtins" else base.__name__, (base,), members)


def _library_class(classes: Any) -> type | None:
    """The first of an object's classes that is a library's, and none whose values cross as copies."""
    for module, name in classes if type(classes) is list else ():
        if module == "builtins" and name in _BUILTIN:
            return _BUILTIN[name]
        cls = None if str(module).partition(".")[0] in _NEVER else sys.modules.get(module)
        for part in str(name).split("."):
            cls = getattr(cls, part, None)
        if isinstance(cls, type) and not (cls in ALLOWED.values() or is_array_class(cls) or issubclass(cls, PurePath)):
            return cls
    return None
