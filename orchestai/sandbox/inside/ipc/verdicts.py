"""What an answer may say that pleases by itself, whatever was expected; and numbers that are held against no limit."""

from __future__ import annotations

import datetime
import decimal
import numbers
from collections.abc import Callable, Iterator
from functools import cache
from types import MethodDescriptorType
from typing import Any

from .values import NotPlainError

_CONTAINERS = (list, tuple, set, frozenset, dict)
_HOLDERS = (*_CONTAINERS, str, bytes)
_TEXTS = (str, bytes)
_NUMBERS = (numbers.Real, decimal.Decimal)
_ARITHMETIC = (
    *("__abs__", "__neg__", "__pos__", "__round__"),
    *(f"__{side}{name}__" for name in ("add", "mul", "truediv", "floordiv", "mod", "pow") for side in ("", "r")),
)


class Elsewhere:
    """Stands for an object of the program's, and says nothing by itself."""

    __slots__ = ()


def pleases(value: Any) -> bool:
    """Whether it is a verdict, or what a tolerance or a difference would be for what was right.

    That is a yes or no, a number between -1 and 1, and what holds a yes or no, or numbers and none but such.
    """
    if issubclass(type(value), Elsewhere) or type(value) in _told_kinds:
        return False
    if _is_yes_or_no(value):
        return True
    if isinstance(value, _CONTAINERS):
        held = [one for one in inside(value) if not isinstance(one, _CONTAINERS)]
        return any(map(_is_yes_or_no, held)) or (bool(held) and all(map(_is_small, held)))
    return _is_small(value) or (_is_table(value) and _is_table_of_small_numbers(value))


def inside(value: Any) -> Iterator[Any]:
    """A value and what it holds."""
    yield value
    if type(value) in _CONTAINERS:
        for one in value.values() if type(value) is dict else value:
            yield from inside(one)


def told(value: Any) -> Any:
    """What equals `value` and is neither true nor false, and, if it is a number, neither more nor less than another.

    A program that says whether something is what is expected would say 7, how far it is from it -5, and how near it is
    to it 42. What tests compute of that (a sum, a mean) is the same again; but how far it is from a number of theirs
    (`abs(told - 3)`) is for them to judge. None, and what is of any but the builtin classes and those of numbers, stays
    as it is.
    """
    return value if type(value) in _told_kinds else _told(value)


def _told(value: Any, is_difference: bool = False) -> Any:
    if isinstance(value, bool) or not (type(value) in _HOLDERS or _is_number(value)):
        return value
    cls: Any = type(value)
    return _told_kind(cls, is_difference)(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, _NUMBERS) and not issubclass(type(value), Elsewhere)


_told_kinds: set[type] = set()


@cache
def _told_kind(cls: Any, is_difference: bool) -> Callable[[Any], Any]:
    def undecided(*_: Any) -> Any:
        raise NotPlainError("only the program's own code says so, which tests cannot take for a verdict")

    def again(name: str) -> Callable[..., Any]:
        def method(self: Any, *args: Any, **kwargs: Any) -> Any:
            value = getattr(cls, name)(self, *args, **kwargs)
            return told(value) if cls not in _TEXTS or type(value) is cls else value

        return method

    def difference(name: str) -> Callable[..., Any]:
        return lambda self, other: _told(getattr(cls, name)(self, other), type(other) not in _told_kinds)

    members: dict[str, Any] = {"__bool__": undecided, "__module__": cls.__module__, "__qualname__": cls.__qualname__}
    if cls in _TEXTS:
        public = (name for name in vars(cls) if name[:1] != "_" and isinstance(vars(cls)[name], MethodDescriptorType))
        members |= {name: again(name) for name in ("__add__", *public)}
    elif cls not in _HOLDERS:
        members |= dict.fromkeys(("__lt__", "__le__", "__gt__", "__ge__"), undecided)
        members |= {name: again(name) for name in _ARITHMETIC if hasattr(cls, name)}
        members |= {name: difference(name) for name in ("__sub__", "__rsub__")}
        if is_difference:
            del members["__abs__"]
    members["__reduce_ex__"] = lambda self, _: (cls, (cls(self),))
    made = type(cls.__name__, (cls,), members)
    _told_kinds.add(made)
    return made


def _is_small(value: Any) -> bool:
    """Whether it is a number, or a duration, that is nothing or near to it, or no number at all (NaN)."""
    if issubclass(type(value), Elsewhere) or isinstance(value, (str, bytes)):
        return False
    if isinstance(value, datetime.timedelta):
        return not value
    if isinstance(value, numbers.Number) or getattr(value, "shape", None) == ():
        try:
            return not abs(value) >= 1  # type: ignore[operator]
        except (TypeError, ValueError, ArithmeticError):  # NumPy's durations know no numbers
            return not value
    return False


def _is_yes_or_no(value: Any) -> bool:
    if _is_table(value):
        return any(dtype.kind == "b" for dtype in _dtypes(value))
    dtype = getattr(value, "dtype", None) if getattr(value, "shape", None) == () else None
    return isinstance(value, (bool, type(NotImplemented))) or getattr(dtype, "kind", "") == "b"


def _is_table(value: Any) -> bool:
    """Whether it is an array, a column or a table, with one dimension at least."""
    return type(value).__module__.partition(".")[0] in ("numpy", "pandas") and bool(getattr(value, "shape", ()))


def _dtypes(table: Any) -> list[Any]:
    dtype = getattr(table, "dtype", None)
    return list(table.dtypes) if dtype is None else [dtype]


def _is_table_of_small_numbers(table: Any) -> bool:
    """Whether it holds numbers or durations, none of which says more than that nothing is left."""
    kinds = {dtype.kind for dtype in _dtypes(table)}
    if table.size == 0:
        return False
    table = table.astype("int64") if kinds == {"m"} else table
    content = getattr(table, "values", table)
    if kinds == {"O"}:
        return all(map(_is_small, content.ravel().tolist()))
    return kinds <= set("iufcm") and not bool((abs(content) >= 1).any())
