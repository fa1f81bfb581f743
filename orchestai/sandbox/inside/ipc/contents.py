"""Values of the standard library that are no more than they hold, as parts and back: views, namespaces, patterns, ...

A value is taken apart as (kind, part, ...), of whatever parts; the receiver makes each of its own class.
"""

from __future__ import annotations

import collections
import datetime
import functools
import operator
import re
import types
from collections.abc import Callable
from typing import Any

_USER = {cls.__name__: cls for cls in (collections.UserDict, collections.UserList, collections.UserString)}
_ISO_DATE = type(datetime.date.min.isocalendar())


def take_apart(value: Any) -> tuple[Any, ...] | None:
    """The kind and the parts of a value; None of others, and of a namespace with functions, which may change it."""
    cls = type(value)
    if cls is types.SimpleNamespace and any(map(callable, vars(value).values())):
        return None
    parts = _PARTS.get(cls)
    return None if parts is None else parts(value)


_PARTS: dict[type, Callable[[Any], tuple[Any, ...]]] = {
    type(...): lambda _: ("constant", "Ellipsis"),
    type(NotImplemented): lambda _: ("constant", "NotImplemented"),
    types.SimpleNamespace: lambda value: ("namespace", dict(vars(value))),
    types.MappingProxyType: lambda value: ("mapping", dict(value)),
    type({}.keys()): lambda value: ("keys", list(value)),
    type({}.values()): lambda value: ("values", list(value)),
    type({}.items()): lambda value: ("items", dict(value)),
    collections.ChainMap: lambda value: ("chain", [dict(one) for one in value.maps]),
    **{cls: lambda value: ("user", type(value).__name__, value.data) for cls in _USER.values()},
    re.Pattern: lambda value: ("pattern", value.pattern, value.flags),
    types.GenericAlias: lambda value: ("generic", value.__origin__, value.__args__),
    types.UnionType: lambda value: ("union", value.__args__),
    _ISO_DATE: lambda value: ("iso date", *tuple(value)),
}
_CLASSES = (type, types.GenericAlias, types.UnionType)


def _pattern(pattern: Any, flags: int) -> re.Pattern[Any]:
    if type(pattern) not in (str, bytes):
        raise ValueError("a pattern of neither text nor bytes")
    return re.compile(pattern, flags & ~re.DEBUG)


def _generic(origin: Any, args: tuple[Any, ...]) -> types.GenericAlias:
    if type(origin) is not type or not all(isinstance(arg, _CLASSES) for arg in args):
        raise ValueError("not of classes")
    return types.GenericAlias(origin, tuple(args))


def _union(args: tuple[Any, ...]) -> Any:
    if not all(isinstance(arg, _CLASSES) for arg in args):
        raise ValueError("not of classes")
    return functools.reduce(operator.or_, args)


def _namespace(content: dict[str, Any]) -> types.SimpleNamespace:
    if any(name.startswith("__") for name in content):  # NumPy would believe what `__array_interface__` says of memory
        raise ValueError("attributes that mean something to libraries")
    return types.SimpleNamespace(**content)


BUILDERS: dict[str, Callable[..., Any]] = {
    "constant": lambda name: {"Ellipsis": ..., "NotImplemented": NotImplemented}[name],
    "namespace": _namespace,
    "mapping": lambda content: types.MappingProxyType(dict(content)),
    "keys": lambda content: dict.fromkeys(content).keys(),
    "values": lambda content: dict(enumerate(content)).values(),
    "items": lambda content: dict(content).items(),
    "chain": lambda maps: collections.ChainMap(*map(dict, maps)),
    "user": lambda name, data: _USER[name](data),
    "pattern": _pattern,
    "generic": _generic,
    "union": _union,
    "iso date": lambda *parts: datetime.date.fromisocalendar(*parts).isocalendar(),
}
