"""Exceptions as plain facts, and back: of a builtin class, or of a library's that the receiver has itself."""

from __future__ import annotations

import builtins
import importlib
import sys
import traceback
from collections.abc import Callable
from typing import Any

from . import library

MAX_MESSAGE = 300
_DEEPEST = 5
_IMPORTED = frozenset(
    (
        *("asyncio.exceptions", "binascii", "configparser", "csv", "decimal", "http.client", "json.decoder", "queue"),
        *("re", "shutil", "socket", "sqlite3", "ssl", "statistics", "struct", "subprocess", "tarfile", "urllib.error"),
        *("xml.etree.ElementTree", "xml.parsers.expat", "zipfile", "zlib"),
    )
)
"""Modules of the library that may be imported for an exception; of its others those that the tests have imported."""
_PACKAGES = frozenset(("numpy.exceptions", "numpy.linalg", "pandas.errors"))


def describe(error: BaseException) -> str:
    """The exception's last line, cut to MAX_MESSAGE characters; never raises."""
    try:
        text = "".join(traceback.format_exception_only(type(error), error)).strip()
        text = text.splitlines()[-1] if isinstance(error, SyntaxError) else text
    except Exception:
        text = type(error).__name__
    return text[:MAX_MESSAGE]


def is_known(error: Any) -> bool:
    """Whether it is an exception of exactly a class that whoever receives it may have."""
    cls = type(error)
    return isinstance(error, BaseException) and (cls.__module__ == "builtins" or library.is_library(cls.__module__))


def take_apart(error: BaseException, is_plain: Callable[[Any], bool], depth: int = 0) -> dict[str, Any]:
    """The facts of an exception, and of that which it was raised from.

    Args:
        is_plain: whether a value can leave this process as a copy.
    """
    attributes = dict(vars(error))
    if isinstance(error, OSError):
        attributes |= {"filename": error.filename, "filename2": error.filename2}
    cause = error.__cause__
    return {
        "classes": [(cls.__module__, cls.__qualname__) for cls in type(error).__mro__],
        "args": error.args if is_plain(error.args) else (describe(error),),
        "attributes": {name: value for name, value in attributes.items() if is_plain(value)},
        "cause": None if cause is None or depth >= _DEEPEST else take_apart(cause, is_plain, depth + 1),
    }


def put_together(facts: Any) -> BaseException | None:
    """The first of the exception's classes that is a builtin or a library's, with the same content; None if none is."""
    args, attributes = tuple(facts["args"]), facts["attributes"]
    for module, name in facts["classes"]:
        cls = _class(str(module), str(name))
        if cls is None:
            continue
        try:
            error = _instance(cls, args)
        except Exception:
            continue
        error.args = args
        for name, value in attributes.items() if type(attributes) is dict else ():
            _set_attribute(error, str(name), value)
        if (cause := facts.get("cause")) is not None:
            error.__cause__ = put_together(cause)
        return error
    return None


def _class(module: str, name: str) -> type[BaseException] | None:
    if module == "builtins":
        cls = getattr(builtins, name, None)
    elif module in _IMPORTED or (module in _PACKAGES and module in sys.modules):
        cls = getattr(importlib.import_module(module), name, None)
    else:
        cls = library.member(module, name)
    return cls if isinstance(cls, type) and issubclass(cls, BaseException) else None


def _instance(cls: type[BaseException], args: tuple[Any, ...]) -> BaseException:
    try:
        return cls(*args)
    except Exception:  # its constructor wants something else than what it keeps
        return cls.__new__(cls, *args)


def _set_attribute(error: BaseException, name: str, value: Any) -> None:
    if isinstance(error, OSError) and name in ("filename", "filename2"):
        if value is not None:  # None would be shown as a name
            setattr(error, name, value)
    elif not name.startswith("_"):
        error.__dict__[name] = value
