"""Exceptions by type and message: of a builtin class, or of a library's that the receiver has itself."""

from __future__ import annotations

import builtins
import importlib
import sys
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from .. import words

MAX_MESSAGE, MAX_OUTPUT = 300, 2000
"""Characters kept of why a test failed, and of what it prints."""
_IMPORTED = words(
    "asyncio.exceptions binascii configparser csv decimal http.client json.decoder queue re shutil socket sqlite3 ssl "
    "statistics struct subprocess tarfile urllib.error xml.etree.ElementTree xml.parsers.expat zipfile zlib"
)
"""Modules of the library that may be imported for an exception; of its others those that the tests have imported."""
_NEVER = words("unittest test doctest pytest __test__") | {__name__.partition(".")[0]}
"""Packages whose exceptions mean something to who judges, or that are the program's."""
_FACTS = {SystemExit: ("code",), OSError: ("errno", "strerror", "filename"), UnicodeError: ("reason", "start", "end")}


def describe(error: BaseException) -> str:
    """The exception's last line, cut to MAX_MESSAGE characters; never raises."""
    try:
        text = "".join(traceback.format_exception_only(type(error), error)).strip()
        text = text.splitlines()[-1] if isinstance(error, SyntaxError) else text
    except Exception:
        text = type(error).__name__
    return text[:MAX_MESSAGE]


def take_apart(error: BaseException, is_plain: Callable[[Any], bool]) -> dict[str, Any]:
    """The facts of an exception.

    Args:
        is_plain: whether a value can leave this process as a copy.
    """
    attributes = dict(vars(error))
    for cls, names in _FACTS.items():
        if isinstance(error, cls):
            attributes |= {name: getattr(error, name, None) for name in names}
    try:
        text = str(error)
    except Exception:
        text = describe(error)
    return {
        "classes": [(cls.__module__, cls.__qualname__) for cls in type(error).__mro__],
        "args": error.args if is_plain(error.args) else (text,),
        "text": text,
        "attributes": {name: value for name, value in attributes.items() if is_plain(value)},
    }


def put_together(facts: Any) -> BaseException | None:
    """An exception of the first of its classes that is a builtin or a library's, with the same arguments and message.

    None where it has no such class.
    """
    args, text, attributes = tuple(facts["args"]), str(facts["text"]), facts["attributes"]
    for module, name in facts["classes"]:
        cls = _class(str(module), str(name))
        if cls is None:
            continue
        try:
            error = cls(*args) if cls.__module__ == "builtins" else cls.__new__(cls, *args)
        except Exception:  # it wants something else than what it keeps
            continue
        error.args = args
        for attribute, value in attributes.items() if type(attributes) is dict else ():
            if (
                type(attribute) is str
                and not attribute.startswith("_")
                and not callable(getattr(error, attribute, None))
            ):
                try:
                    setattr(error, attribute, value)
                except (AttributeError, TypeError, ValueError):
                    error.__dict__[attribute] = value
        with suppress(Exception):
            if str(error) == text:
                return error
        # One of a class derived from its own says `text`, as a class of the program's did.
        members = {"__str__": lambda _: text, "__init__": BaseException.__init__, "__module__": cls.__module__}
        derived = type(cls.__name__, (cls,), members)
        said = derived.__new__(derived, *error.args)
        said.args = error.args
        said.__dict__.update(error.__dict__)
        return said
    return None


def _class(module: str, name: str) -> type[BaseException] | None:
    top = module.partition(".")[0]
    if module == "builtins":
        cls = getattr(builtins, name, None)
    elif module in _IMPORTED:
        cls = getattr(importlib.import_module(module), name, None)
    else:
        cls = getattr(sys.modules.get(module), name, None) if top not in _NEVER and not top.startswith("_") else None
    return cls if isinstance(cls, type) and issubclass(cls, BaseException) and cls.__module__ == module else None
