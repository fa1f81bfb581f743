"""Values on their way out of a candidate's process: plain ones as copies, others as numbers of objects that stay there.

Nothing that a candidate sends can act in the tests' process. Plain pickles are decoded by C code that knows no class at
all. A pickle that names classes is decoded by the pure Python unpickler reduced to opcodes that build values: `BUILD`,
which could set attributes of the classes themselves (`Counter.__eq__`), and the opcodes that make arbitrary instances
are left out.
"""

from __future__ import annotations

import importlib
import io
import math
import pickle
import struct
import sys
from collections.abc import Callable
from pathlib import Path, PurePath
from types import GeneratorType, GenericAlias, ModuleType
from typing import Any, ClassVar

from . import arrays, exceptions, library

_CLASSES = {
    "builtins": (
        *("bool", "int", "float", "complex", "str", "bytes", "bytearray"),
        *("list", "tuple", "dict", "set", "frozenset", "range", "slice"),
    ),
    "collections": ("Counter", "OrderedDict", "defaultdict", "deque"),
    "datetime": ("date", "datetime", "time", "timedelta", "timezone"),
    "decimal": ("Decimal",),
    "fractions": ("Fraction",),
}
ALLOWED = {
    (module, name): getattr(importlib.import_module(module), name) for module in _CLASSES for name in _CLASSES[module]
}
_CONSTRUCTORS = frozenset(ALLOWED.values())
_BASES: tuple[Any, ...] = (int, float, str, bytes, list, tuple, dict, set, frozenset)
_REFUSED_OPCODES = frozenset(
    opcode[0]
    for opcode in (
        *(pickle.BUILD, pickle.INST, pickle.OBJ, pickle.NEWOBJ, pickle.NEWOBJ_EX, pickle.PERSID),
        *(pickle.EXT1, pickle.EXT2, pickle.EXT4, pickle.NEXT_BUFFER, pickle.READONLY_BUFFER),
    )
)
_NAN = pickle.BINFLOAT + struct.pack(">d", math.nan)
_WITH_NAN = ("math", "numpy")
_PROGRAM = "__test__"
"""Name of the program's module, and in their process of that of the tests."""
_OBJECT, _NAMED_TUPLE, _PATH, _PACKED, _PLAIN = "object", "namedtuple", "path", "packed", "plain"
_EXCEPTION, _EXCEPTIONS, _MODULE = "exception", "exceptions", "module"
_OF_CLASSES = ("class", "generic", "union")
_WITHOUT_ATTRIBUTES = (_PLAIN, _OBJECT, *_OF_CLASSES)


class NotPlainError(BaseException):
    """A value cannot leave the candidate's process, or something is asked of it that its own code would decide.

    No Exception, so that a test that expects one does not take it for the program's.
    """


class NamesClassError(Exception):
    """A pickle names a class, or anything else of a module."""


def rebuild(*parts: Any) -> Any:
    """Marks in a pickle what `decode` puts together from its kind and its parts."""
    raise NotPlainError(f"{parts[:1]} outside of an answer")


def encode(value: Any, number: Callable[[Any], int]) -> bytes:
    """`value` for `decode`.

    Args:
        number: of an object that stays here.
    """
    buffer = io.BytesIO()
    _Pickler(buffer, number).dump(value)
    if _NAN in buffer.getvalue():
        buffer = io.BytesIO()
        _NanPickler(buffer, number).dump(value)
    return buffer.getvalue()


def decode(payload: bytes, remote: Callable[[int, str], Any] | None = None) -> Any:
    """The value that `payload` pickles.

    Args:
        remote: stands for the object of a number; the second argument is `callable`, `dataclass`, `generator` or
            `object`.

    Raises:
        NotPlainError: it is anything but plain values, and objects where they are allowed.
    """
    try:
        return decode_primitive(payload)
    except NamesClassError:
        pass
    try:
        return _Careful(io.BytesIO(payload), remote).load()
    except NotPlainError:
        raise
    except Exception as error:
        raise NotPlainError(f"not a plain value: {type(error).__name__}: {error}") from None


def decode_primitive(payload: bytes) -> Any:
    """The value that `payload` pickles, if no class is named in it.

    Raises:
        NamesClassError: one is.
        NotPlainError: it is no pickle.
    """
    try:
        return _Primitive(io.BytesIO(payload)).load()
    except NamesClassError:
        raise
    except Exception as error:
        raise NotPlainError(f"unreadable answer: {error}") from None


class _Pickler(pickle.Pickler):
    def __init__(self, file: io.BytesIO, number: Callable[[Any], int]) -> None:
        super().__init__(file, protocol=5)
        self._number = number

    def reducer_override(self, value: Any) -> Any:
        if value is rebuild or type(value) in _CONSTRUCTORS or (isinstance(value, type) and value in _CONSTRUCTORS):
            return NotImplemented
        if type(value) is arrays.Packed:
            return rebuild, (_PACKED, value.data)
        if (parts := arrays.take_apart(value)) is not None:
            return rebuild, parts
        if isinstance(value, type) and issubclass(value, BaseException) and value.__module__ == _PROGRAM:
            classes = [(cls.__module__, cls.__qualname__) for cls in value.__mro__]
            return rebuild, (_EXCEPTIONS, classes, exceptions.own_attributes(value, is_plain))
        if type(value) is ModuleType:
            return rebuild, (_MODULE, self._number(value), value.__name__)
        if (parts := library.take_apart(value)) is not None:
            return rebuild, parts
        if isinstance(value, BaseException):
            own = () if exceptions.is_known(value) else (self._number(value),)
            return rebuild, (_EXCEPTION, exceptions.take_apart(value, is_plain), *own)
        cls = type(value)
        if issubclass(cls, PurePath):
            return rebuild, (_PATH, isinstance(value, Path), str(value))
        if issubclass(cls, tuple) and isinstance(fields := getattr(cls, "_fields", None), tuple):
            content = tuple.__getitem__(value, slice(None))
            more = (self._number(value),) if _has_more(cls) else ()
            return rebuild, (_NAMED_TUPLE, cls.__name__, fields, content, *more)
        if issubclass(cls, tuple) and cls.__module__ != _PROGRAM and getattr(value, "__dict__", None):
            return rebuild, (
                _OBJECT,
                self._number(value),
                _kind(value),
            )  # as the containers of matplotlib, which hold more
        for base in _BASES:
            if issubclass(cls, base):
                return rebuild, (_PLAIN, _content(value, base))
        return rebuild, (_OBJECT, self._number(value), _kind(value))


class _NanPickler(_Pickler):
    """Knows `math.nan` and `numpy.nan` by name, slowly: lists that hold them are equal where they are the same ones."""

    def persistent_id(self, value: Any) -> str | None:
        return next((name for name, nan in _nans().items() if value is nan), None) if type(value) is float else None


def _nans() -> dict[str, float]:
    return {name: sys.modules[name].nan for name in _WITH_NAN if name in sys.modules}


def _nan(name: Any) -> float:
    if type(name) is not str or name not in _WITH_NAN:
        raise NotPlainError("a reference to something that is not in the answer")
    return _nans().get(name, math.nan)


def is_plain(value: Any) -> bool:
    """Whether all of a value can leave this process as a copy."""
    try:
        decode(encode(value, _at_home))
    except (Exception, NotPlainError):
        return False
    return True


def _at_home(value: Any) -> int:
    raise NotPlainError(f"an object of {type(value)}")


def _has(module: ModuleType, thing: Any) -> bool:
    """Whether it is there under some name."""
    return any(value is thing for value in vars(module).values())


def _has_more(cls: type) -> bool:
    """Whether a class of named tuples has methods or attributes of its own beside its fields."""
    from collections import namedtuple

    plain = set(dir(namedtuple("plain", "")))
    more = set(dir(cls)) - set(cls._fields) - plain  # type: ignore[attr-defined]
    return any(name == "__getattr__" or not name.startswith("__") for name in more)


def _content(value: Any, base: Any) -> Any:
    """What the `base` part of a value of a subclass holds."""
    if base is dict:
        return dict(dict.items(value))
    if base in (list, tuple, set, frozenset):
        return base(base.__iter__(value))
    return base.__getnewargs__(value)[0]


def _kind(value: Any) -> str:
    if callable(value):
        return "callable"
    if hasattr(type(value), "__dataclass_fields__"):
        return "dataclass"
    return "generator" if isinstance(value, GeneratorType) else _OBJECT


def itself(value: Any) -> Any:
    """What a `Member` is in a pickle: its class."""
    return value


class Member:
    """A class as an attribute of what the program made: it equals the class, and gives no verdict (`equals = bool`)."""

    def __init__(self, cls: Any) -> None:
        self._class = cls

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        from .verdicts import pleases, told  # which need this module

        if pleases(value := self._class(*args, **kwargs)):
            raise NotPlainError(f"{self._class} says {value!r} for the program of what it was given")
        return told(value)

    def __instancecheck__(self, value: Any) -> bool:
        return isinstance(value, self._class)

    def __subclasscheck__(self, cls: Any) -> bool:
        return issubclass(cls, self._class)

    def __eq__(self, other: object) -> bool:
        return bool(self._class == (other._class if isinstance(other, Member) else other))

    def __hash__(self) -> int:
        return hash(self._class)

    def __repr__(self) -> str:
        return repr(self._class)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._class, name)

    def __reduce__(self) -> Any:
        return itself, (self._class,)


def as_member(value: Any) -> Any:
    """What a value is as an attribute of what the program made."""
    if isinstance(value, (type, GenericAlias)):
        return value if isinstance(value, type) and issubclass(value, BaseException) else Member(value)
    as_method = getattr(type(value), "as_method", None)
    return value if as_method is None else as_method(value)


def _as_members(parts: Any) -> Any:
    """Parts of a value whose attributes they may become, with what the program's functions are as attributes."""
    if type(parts) in (list, tuple):
        return type(parts)(map(_as_members, parts))
    if type(parts) is dict:
        return {key: _as_members(part) for key, part in parts.items()}
    return as_member(parts)


class _Primitive(pickle.Unpickler):
    def find_class(self, module: str, name: str) -> Any:
        raise NamesClassError

    def persistent_load(self, name: Any) -> float:
        return _nan(name)


_PythonUnpickler: Any = pickle._Unpickler  # type: ignore[attr-defined]


class _Careful(_PythonUnpickler):
    def __init__(self, file: io.BytesIO, remote: Callable[[int, str], Any] | None) -> None:
        super().__init__(file)
        self._remote = remote
        self._has_callables = False

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == (rebuild.__module__, rebuild.__name__):
            return rebuild
        try:
            self._has_callables = True
            return ALLOWED[module, name]
        except KeyError:
            raise NotPlainError(f"{module}.{name} is not a plain type") from None

    def persistent_load(self, name: Any) -> float:
        return _nan(name)

    def load_reduce(self) -> None:
        arguments = self.stack.pop()
        function = self.stack.pop()
        if function is rebuild:
            kind, *parts = arguments
            may_have_attributes = self._has_callables and kind not in _WITHOUT_ATTRIBUTES
            self._has_callables = self._has_callables or kind in _OF_CLASSES
            self.stack.append(self._rebuild(kind, *(_as_members(parts) if may_have_attributes else parts)))
        elif isinstance(function, type) and function in _CONSTRUCTORS:
            self.stack.append(function(*arguments))
        else:
            raise NotPlainError("a call of something that is not a plain type")

    def _rebuild(self, kind: str, *parts: Any) -> Any:
        if kind == _PLAIN:
            return parts[0]
        if kind == _PACKED:
            return decode_primitive(parts[0])
        if kind == _NAMED_TUPLE:
            return self._named_tuple(*parts)
        if kind == _MODULE:
            return self._module(*parts)
        if kind == _PATH:
            return (Path if parts[0] else PurePath)(str(parts[1]))
        if kind == _EXCEPTION:
            ask = self._object(parts[1], _OBJECT) if len(parts) > 1 else None
            if (error := exceptions.put_together(parts[0], ask)) is None:
                raise NotPlainError("an exception of no known class")
            return error
        if kind == _EXCEPTIONS:
            if (cls := exceptions.class_of(*parts)) is None:
                raise NotPlainError("no class of exceptions")
            return cls
        if kind in library.BUILDERS:
            return exceptions.catching_no_failure(library.put_together(kind, *parts))
        return self._object(*parts) if kind == _OBJECT else arrays.put_together(kind, *parts)

    def _module(self, number: int, name: str) -> Any:
        """A module of the standard library, if the tests have it themselves: what else it has is no answer."""
        found, tests = sys.modules.get(name), sys.modules.get(_PROGRAM)
        if found and tests and library.is_library(name) and _has(tests, found):
            return found
        return self._object(number, _OBJECT)

    def _object(self, number: int, kind: str) -> Any:
        if self._remote is None:
            raise NotPlainError("an object that is not a plain value")
        self._has_callables = True
        return self._remote(int(number), str(kind))

    def _named_tuple(self, name: str, fields: tuple[str, ...], values: tuple[Any, ...], number: int = -1) -> Any:
        """A tuple with its fields; what else its class has is asked of the object of this number."""
        from collections import namedtuple

        cls = namedtuple(name, fields)  # type: ignore[misc]
        if number < 0:
            return cls(*values)
        ask = self._object(number, _OBJECT)
        more = {"__slots__": (), "__getattr__": lambda _, attribute: getattr(ask, attribute)}
        return type(str(name), (cls,), more)(*values)

    dispatch: ClassVar = {
        **{code: load for code, load in _PythonUnpickler.dispatch.items() if code not in _REFUSED_OPCODES},
        pickle.REDUCE[0]: load_reduce,
    }
