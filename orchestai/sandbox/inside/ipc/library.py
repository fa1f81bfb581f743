"""Values and classes of the standard library as plain parts, and back.

The receiver makes each of a class that it has itself, and whose comparisons are the library's: nothing of the sender's
decides what it becomes or equals. A value is taken apart as (kind, part, ...); parts are plain values.
"""

from __future__ import annotations

import builtins
import importlib
import sys
import types
from typing import Any

from . import contents

_BY_TEXT = frozenset(
    (
        ("uuid", "UUID"),
        *(("ipaddress", f"IPv{n}{kind}") for n in (4, 6) for kind in ("Address", "Interface", "Network")),
    )
)
"""Classes whose values are made of their text."""
_OF_VALUES = frozenset(
    (
        *("abc", "array", "collections", "collections.abc", "datetime", "decimal", "enum", "fractions", "ipaddress"),
        *("numbers", "pathlib", "types", "uuid", "zoneinfo"),
    )
)
"""Modules whose classes cross, as exceptions of all modules do: to call them makes a value and does no more."""
_ENUMS = ("IntFlag", "IntEnum", "StrEnum", "Enum")
_MOST_MEMBERS = 256
_NEVER = frozenset(("unittest", "test", "doctest", "idlelib", "lib2to3", "turtledemo", "this", "antigravity"))
"""Modules of the library that judge, or do something when they are imported."""


def is_library(module: str) -> bool:
    """Whether values of a module of this name may be made: it is the standard library's, and judges nothing."""
    top = module.partition(".")[0]
    return top in sys.stdlib_module_names and top not in _NEVER


def member(module: str, name: str) -> Any:
    """What a module that has been imported here calls so; None where there is nothing."""
    return getattr(sys.modules.get(module), name, None) if is_library(module) else None


def _imported(module: str, name: str) -> Any:
    """`member`, of a module that is imported for it where it is public."""
    if is_library(module) and not any(part.startswith("_") for part in module.split(".")):
        importlib.import_module(module)
    return member(module, name)


def take_apart(value: Any) -> tuple[Any, ...] | None:
    """The kind and the parts of a value or class of the standard library, or of an enumeration; None of others."""
    if isinstance(value, type):
        return _take_apart_class(value)
    cls = type(value)
    if (parts := contents.take_apart(value)) is not None:
        return parts
    where = cls.__module__, cls.__qualname__
    if where in _BY_TEXT and member(*where) is cls:
        return "text", *where, str(value)
    if where == ("zoneinfo", "ZoneInfo") and type(value.key) is str:
        return "zone", value.key
    if _is_structure(cls) and member(*where) is cls:
        return "structure", *where, tuple(value), value.__reduce__()[1][1]
    if isinstance(value, tuple) and _is_named_tuple(found := member(*where)) and found is cls:
        return "library tuple", *where, tuple(value)
    enum = sys.modules.get("enum")
    return _take_apart_enum(enum, value) if enum is not None and isinstance(value, enum.Enum) else None


def put_together(kind: str, *parts: Any) -> Any:
    """What was taken apart. Raises KeyError for an unknown kind, and whatever wrong parts lead to."""
    return BUILDERS[kind](*parts)


def _take_apart_class(cls: type) -> tuple[Any, ...] | None:
    if cls is types.NoneType or getattr(builtins, cls.__name__, None) is cls:
        return "class", "builtins", cls.__name__
    numpy = sys.modules.get("numpy")
    if numpy is not None and issubclass(cls, getattr(numpy, "generic", ())) and getattr(numpy, cls.__name__, 0) is cls:
        return "class", "numpy", cls.__name__
    if _may_cross(cls) and member(cls.__module__, cls.__qualname__) is cls:
        return "class", cls.__module__, cls.__qualname__
    return None


def _may_cross(cls: type) -> bool:
    return type(cls).__eq__ is object.__eq__ and (cls.__module__ in _OF_VALUES or issubclass(cls, BaseException))


def _is_structure(cls: Any) -> bool:
    """Whether it is a class of named fields in C, as `time.struct_time`."""
    return isinstance(cls, type) and issubclass(cls, tuple) and hasattr(cls, "n_sequence_fields")


def _take_apart_enum(enum: Any, value: Any) -> tuple[Any, ...] | None:
    """A member that is also a text or a number; any other is an object like those of other classes."""
    cls = type(value)
    mixed = next((base for base in (int, str) if isinstance(value, base)), None)
    if mixed is None:
        return None
    if member(cls.__module__, cls.__qualname__) is cls and value.name in cls.__members__:
        return "library enum", cls.__module__, cls.__qualname__, value.name
    members = [(name, one.value) for name, one in cls.__members__.items()]
    if len(members) > _MOST_MEMBERS or any(type(content) is not mixed for _, content in members):
        return None
    kind = next(name for name in _ENUMS if issubclass(cls, getattr(enum, name, ())))
    return "enum", kind, mixed.__name__, cls.__name__, members, mixed(value.value)


def _is_named_tuple(cls: Any) -> bool:
    return isinstance(cls, type) and issubclass(cls, tuple) and hasattr(cls, "_fields") and cls.__eq__ is tuple.__eq__


def _class(module: str, name: str) -> type:
    if module == "builtins":
        cls = types.NoneType if name == "NoneType" else getattr(builtins, name)
    elif module == "numpy":
        import numpy

        cls = getattr(numpy, name)
        if not issubclass(cls, numpy.generic):
            raise ValueError(name)
    else:
        cls = _imported(module, name)
        if isinstance(cls, type) and not _may_cross(cls):
            raise ValueError(name)
    if not isinstance(cls, type):
        raise ValueError(name)
    return cls


def _by_text(module: str, name: str, text: str) -> Any:
    if (module, name) not in _BY_TEXT:
        raise ValueError(name)
    return _imported(module, name)(str(text))


def _zone(key: str) -> Any:
    from zoneinfo import ZoneInfo

    return ZoneInfo(str(key))


def _structure(module: str, name: str, values: tuple[Any, ...], hidden: dict[str, Any]) -> Any:
    cls = _imported(module, name)
    if not _is_structure(cls):
        raise ValueError(name)
    return cls(tuple(values), dict(hidden))


def _library_tuple(module: str, name: str, values: tuple[Any, ...]) -> Any:
    cls = _imported(module, name)
    if not _is_named_tuple(cls) or len(values) != len(cls._fields):
        raise ValueError(name)
    return tuple.__new__(cls, values)


def _library_enum(module: str, name: str, chosen: str) -> Any:
    import enum

    cls = _imported(module, name)
    if not (isinstance(cls, type) and issubclass(cls, enum.Enum)):
        raise ValueError(name)
    return cls[chosen]


_known_enums: dict[tuple[Any, ...], Any] = {}


def _enum(kind: str, mixed: str, name: str, members: list[tuple[str, Any]], value: Any) -> Any:
    import enum

    base = {"int": int, "str": str}[mixed]
    if kind not in _ENUMS or any(
        type(key) is not str or not key.isidentifier() or key.startswith("_") or type(content) is not base
        for key, content in members
    ):
        raise ValueError("members of an enumeration that are none")
    facts = kind, mixed, str(name), tuple(map(tuple, members))
    if facts not in _known_enums:
        parent = getattr(enum, kind)
        _known_enums[facts] = parent(str(name), members, **({"type": base} if kind == "Enum" else {}))
    return _known_enums[facts](value)


BUILDERS: dict[str, Any] = {
    "class": _class,
    "text": _by_text,
    "zone": _zone,
    "structure": _structure,
    "library tuple": _library_tuple,
    "library enum": _library_enum,
    "enum": _enum,
    **contents.BUILDERS,
}
