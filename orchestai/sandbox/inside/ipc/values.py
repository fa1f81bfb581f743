"""Plain data on their way between the processes of the tests and of the candidate.

Nothing that a candidate sends can act in the tests' process. Plain pickles are decoded by C code that knows no class at
all. A pickle that names classes is decoded by the pure Python unpickler reduced to opcodes that build values: `BUILD`,
which could set attributes of the classes themselves (`Counter.__eq__`), and the opcodes that make arbitrary instances
are left out.
"""

from __future__ import annotations

import datetime
import importlib
import io
import math
import pickle
import re
import struct
import sys
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path, PurePath
from typing import Any, ClassVar

from . import arrays, exceptions

_CLASSES = {
    "builtins": "bool int float complex str bytes bytearray list tuple dict set frozenset range slice",
    "collections": "Counter OrderedDict defaultdict deque",
    "datetime": "date datetime time timedelta timezone",
    "decimal": "Decimal",
    "fractions": "Fraction",
}
_ALLOWED = {
    (module, name): getattr(importlib.import_module(module), name)
    for module, names in _CLASSES.items()
    for name in names.split()
}
_CONSTRUCTORS = frozenset(_ALLOWED.values())
_ITEMS: tuple[Any, ...] = (list, tuple, set, frozenset)
_BASES: tuple[Any, ...] = (int, float, str, bytes, dict, *_ITEMS)
_BY_TEXT = {
    "UUID": "uuid",
    "ZoneInfo": "zoneinfo",
    **{f"IPv{n}{kind}": "ipaddress" for n in (4, 6) for kind in ("Address", "Interface", "Network")},
}
"""Classes of the standard library whose values are made of their text, and the modules that have them."""
MOST_ITEMS = 10_000
_ISO_DATE = type(datetime.date.min.isocalendar())
_VIEWS = {type({}.keys()): set, type({}.values()): list, type({}.items()): set}
_NAN = pickle.BINFLOAT + struct.pack(">d", math.nan)
_WITH_NAN = ("math", "numpy")
_TESTS = "__test__"
"""Name of the program's module, and in their process of that of the tests."""


class NotPlainError(BaseException):
    """A value is no plain data, or what the tests do would run what the program wrote.

    No Exception, so that a test that expects one does not take it for the program's.
    """


class NamesClassError(Exception):
    """A pickle names a class, or anything else of a module."""


def rebuild(*parts: Any) -> Any:
    """Marks in a pickle what `decode` puts together from its kind and its parts."""
    raise NotPlainError(f"{parts[:1]} outside of an answer")


def encode(value: Any) -> bytes:
    """`value` for `decode`. Raises NotPlainError, or what its own code raises."""
    buffer = io.BytesIO()
    _Pickler(buffer, protocol=5).dump(value)
    if _NAN in buffer.getvalue():
        buffer = io.BytesIO()
        _NanPickler(buffer, protocol=5).dump(value)
    return buffer.getvalue()


def encode_arguments(value: Any) -> bytes:
    """What tests give the candidate, for `pickle.loads`. Raises NotPlainError for things of the tests' own."""
    buffer = io.BytesIO()
    try:
        _ArgumentPickler(buffer, protocol=5).dump(value)
    except Exception as error:
        raise NotPlainError(f"the arguments are no plain data: {error}") from None
    return buffer.getvalue()


def decode(payload: bytes) -> Any:
    """The value that `payload` pickles. Raises NotPlainError: it is anything but plain data."""
    with suppress(NamesClassError):
        return decode_primitive(payload)
    try:
        return _Careful(io.BytesIO(payload)).load()
    except NotPlainError:
        raise
    except Exception as error:
        raise NotPlainError(f"not plain data: {type(error).__name__}: {error}") from None


def decode_primitive(payload: bytes) -> Any:
    """The value that `payload` pickles, if no class is named in it. Raises NamesClassError: one is. Raises
    NotPlainError: it is no pickle."""
    try:
        return _Primitive(io.BytesIO(payload)).load()
    except NamesClassError:
        raise
    except Exception as error:
        raise NotPlainError(f"unreadable answer: {error}") from None


def is_plain(value: Any) -> bool:
    """Whether all of a value can leave this process as a copy."""
    try:
        decode(encode(value))
    except (Exception, NotPlainError):
        return False
    return True


class _Pickler(pickle.Pickler):
    def reducer_override(self, value: Any) -> Any:
        cls = type(value)
        if value is rebuild or cls in _CONSTRUCTORS or (isinstance(value, type) and value in _CONSTRUCTORS):
            return NotImplemented
        if cls is arrays.Packed:
            return rebuild, ("packed", value.data)
        if (parts := arrays.take_apart(value)) is not None:
            return rebuild, parts
        if isinstance(value, BaseException):
            return rebuild, ("exception", exceptions.take_apart(value, is_plain))
        if issubclass(cls, PurePath):
            return rebuild, ("path", isinstance(value, Path), str(value))
        if _BY_TEXT.get(cls.__name__) == cls.__module__:
            return rebuild, ("text", cls.__name__, str(value))
        if isinstance(value, Iterator) and cls.__module__ != _TESTS:
            items = list(islice(value, MOST_ITEMS + 1))
            if len(items) > MOST_ITEMS:
                raise NotPlainError(f"an iterator of more than {MOST_ITEMS} items is no plain data")
            return rebuild, ("items", items)
        if cls is memoryview:
            return rebuild, ("plain", bytes(value))
        if cls is _ISO_DATE:
            return rebuild, ("iso date", *value)
        if cls is re.Match:
            return rebuild, ("plain", (value.group(), *value.groups()))
        if cls in _VIEWS:
            return rebuild, ("plain", _VIEWS[cls](value))
        for base in _BASES:
            if issubclass(cls, base):
                if base is dict:
                    content: Any = dict(dict.items(value))
                else:
                    content = base(base.__iter__(value)) if base in _ITEMS else base.__getnewargs__(value)[0]
                return rebuild, ("plain", content)
        raise NotPlainError(f"an object of {cls} is no plain data")


class _NanPickler(_Pickler):
    """Knows `math.nan` and `numpy.nan` by name, slowly: lists that hold them are equal where they are the same ones."""

    def persistent_id(self, value: Any) -> str | None:
        return next((name for name, nan in _nans().items() if value is nan), None) if type(value) is float else None


class _ArgumentPickler(pickle.Pickler):
    def reducer_override(self, value: Any) -> Any:
        if getattr(value, "__module__", None) == _TESTS or type(value).__module__ == _TESTS:
            raise NotPlainError(f"{type(value).__name__} is of the tests, which give the program copies alone")
        return NotImplemented


def _nans() -> dict[str, float]:
    return {name: sys.modules[name].nan for name in _WITH_NAN if name in sys.modules}


def _nan(name: Any) -> float:
    if type(name) is not str or name not in _WITH_NAN:
        raise NotPlainError("a reference to something that is not in the answer")
    return _nans().get(name, math.nan)


class _Primitive(pickle.Unpickler):
    persistent_load = staticmethod(_nan)  # type: ignore[assignment]

    def find_class(self, module: str, name: str) -> Any:
        raise NamesClassError


_PythonUnpickler: Any = pickle._Unpickler  # type: ignore[attr-defined]
_REFUSED = "BUILD INST OBJ NEWOBJ NEWOBJ_EX PERSID EXT1 EXT2 EXT4 NEXT_BUFFER READONLY_BUFFER"
_REFUSED_CODES = {getattr(pickle, name)[0] for name in _REFUSED.split()}


class _Careful(_PythonUnpickler):
    persistent_load = staticmethod(_nan)

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == (rebuild.__module__, rebuild.__name__):
            return rebuild
        try:
            return _ALLOWED[module, name]
        except KeyError:
            raise NotPlainError(f"{module}.{name} is not a plain type") from None

    def load_reduce(self) -> None:
        arguments = self.stack.pop()
        function = self.stack.pop()
        if function is rebuild:
            self.stack.append(_rebuilt(*arguments))
        elif isinstance(function, type) and function in _CONSTRUCTORS:
            self.stack.append(function(*arguments))
        else:
            raise NotPlainError("a call of something that is not a plain type")

    dispatch: ClassVar = {
        **{code: load for code, load in _PythonUnpickler.dispatch.items() if code not in _REFUSED_CODES},
        pickle.REDUCE[0]: load_reduce,
    }


def _rebuilt(kind: str, *parts: Any) -> Any:
    if kind == "plain":
        return parts[0]
    if kind == "packed":
        return decode_primitive(parts[0])
    if kind == "items":
        return iter(list(parts[0]))
    if kind == "iso date":
        return datetime.date.fromisocalendar(*parts).isocalendar()
    if kind == "path":
        return (Path if parts[0] else PurePath)(str(parts[1]))
    if kind == "text":
        name, text = parts
        return getattr(importlib.import_module(_BY_TEXT[name]), name)(str(text))
    if kind == "exception":
        if (error := exceptions.put_together(parts[0])) is None:
            raise NotPlainError("an exception of no known class")
        return error
    return arrays.put_together(kind, *parts)
