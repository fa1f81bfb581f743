"""Exceptions as plain facts, and back: of a builtin class, or of a library's that the receiver has itself."""

from __future__ import annotations

import builtins
import copyreg
import importlib
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

from . import library

MAX_MESSAGE = 300
_DEEPEST = 5
_BEFORE = ("__cause__", "__context__")
_IMPORTED = frozenset(
    (
        *("asyncio.exceptions", "binascii", "configparser", "csv", "decimal", "http.client", "json.decoder", "queue"),
        *("re", "shutil", "socket", "sqlite3", "ssl", "statistics", "struct", "subprocess", "tarfile", "urllib.error"),
        *("xml.etree.ElementTree", "xml.parsers.expat", "zipfile", "zlib"),
    )
)
"""Modules of the library that may be imported for an exception; of its others those that the tests have imported."""
_PACKAGES = frozenset(("numpy.exceptions", "numpy.linalg", "pandas.errors"))
_NO_PACKAGES = frozenset(("builtins", "pytest", __name__.partition(".")[0]))


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
    """The facts of an exception, and of those that it was raised from or after.

    Args:
        is_plain: whether a value can leave this process as a copy.
    """
    cls, attributes = type(error), dict(vars(error))
    if isinstance(error, OSError):
        attributes |= {"filename": error.filename, "filename2": error.filename2}
    before = {name: getattr(error, name) for name in _BEFORE} if depth < _DEEPEST else {}
    return {
        "classes": [(one.__module__, one.__qualname__) for one in cls.__mro__],
        "args": error.args if is_plain(error.args) else (describe(error),),
        "attributes": {name: value for name, value in attributes.items() if is_plain(value)},
        "before": {name: take_apart(one, is_plain, depth + 1) for name, one in before.items() if one is not None},
        "suppressed": error.__suppress_context__,
        "text": None if is_known(error) else _text(error),
    }


def _text(error: BaseException) -> str | None:
    """What its own class says of it; None where that is what the first builtin one says."""
    builtin = next(cls for cls in type(error).__mro__ if cls.__module__ == "builtins")
    try:
        return None if type(error).__str__ is builtin.__str__ else str(error)
    except Exception:
        return None


def put_together(facts: Any, ask: Any = None) -> BaseException | None:
    """The exception of the class that `class_of` makes of its classes, with the same content; None where it makes none.

    Args:
        ask: the exception itself, which is asked for what a class of the program's has besides.
    """
    args, attributes, classes = tuple(facts["args"]), facts["attributes"], list(facts["classes"])
    for place in range(len(classes)):
        cls = class_of(classes if place == 0 else classes[place:])
        if cls is None:
            return None
        try:
            error = _instance(cls, args)
        except Exception:
            continue
        error.args = args
        if isinstance(error, _Own):
            error._text, error._ask = facts.get("text"), ask
        for name, value in attributes.items() if type(attributes) is dict else ():
            _set_attribute(error, str(name), value)
        before = facts.get("before")
        for name, one in before.items() if type(before) is dict else ():
            if name in _BEFORE:
                setattr(error, name, put_together(one))
        error.__suppress_context__ = facts.get("suppressed") is True
        return error
    return None


def own_attributes(cls: type[BaseException], is_plain: Callable[[Any], bool]) -> dict[str, Any]:
    """What a class of the program's holds for all of its exceptions."""
    held = {name: value for one in reversed(cls.__mro__) for name, value in vars(one).items()}
    own = {name: value for name, value in held.items() if not (name.startswith("_") or hasattr(BaseException, name))}
    return {name: value for name, value in own.items() if not callable(value) and is_plain(value)}


def class_of(
    classes: Sequence[tuple[str, str]], attributes: Mapping[str, Any] | None = None
) -> type[BaseException] | None:
    """The class that stands for one with this order of resolution: the first that is a builtin or a library's.

    Those before it, of the program's, are made anew with their names, each derived from the next; None if all are. So
    is one of a package (`requests.HTTPError`), derived from the receiver's, whose constructor is not trusted with what
    the sender says. See `catching_no_failure` for what stands for a builtin one.

    Args:
        attributes: of the first class, where it is the program's.
    """
    own = []
    for module, name in classes:
        if (known := _class(str(module), str(name))) is not None:
            break
        own.append((str(module), str(name)))
        if (known := _of_package(*own[-1])) is not None:
            break
    else:
        return None
    if not own:
        return catching_no_failure(known)
    for module, name in reversed(own):
        key = known, module, name
        if key not in _made:
            members: dict[str, Any] = {"__module__": module, "__qualname__": name, "__init__": _constructor(known)}
            _made[key] = type(name.rpartition(".")[2], _bases(known, module, name), members)
        known = _made[key]
    for name, value in attributes.items() if attributes else ():
        if not str(name).startswith("_") and not hasattr(BaseException, name):
            setattr(known, name, value)
    return known


def _constructor(cls: type[BaseException]) -> Any:
    """Of the first of its classes that is no package's."""
    return next(one for one in cls.__mro__ if not _is_package(one.__module__) and "__init__" in vars(one)).__init__  # type: ignore[misc]


def _bases(known: type[BaseException], module: str, name: str) -> tuple[type, ...]:
    """Of a class of the program's that derives from `known`; where one of its name has been made that derives from less
    (`class NotFound(AppError, KeyError)`), it is that, too."""
    less = [cls for (base, *where), cls in _made.items() if where == [module, name] and issubclass(known, base)]
    return (less[-1], known) if less else (known,) if issubclass(known, _Own) else (_Own, known)


class _CatchesNoFailure(type):
    """Of classes that stand for the one that they derive from, which assertions that fail are of."""

    def __eq__(cls, other: object) -> bool:
        return cls.__base__ is (other.__base__ if isinstance(other, _CatchesNoFailure) else other)

    def __hash__(cls) -> int:
        return hash(cls.__base__)

    def __subclasscheck__(cls, other: type) -> bool:
        is_of_it = issubclass(other, Exception) and cls.__base__ in other.__mro__
        return (is_of_it and not issubclass(other, AssertionError)) or type.__subclasscheck__(cls, other)

    def __instancecheck__(cls, instance: object) -> bool:
        return cls.__subclasscheck__(type(instance))


copyreg.pickle(_CatchesNoFailure, lambda cls: (_class, ("builtins", cls.__name__)))  # type: ignore[arg-type, return-value]


def catching_no_failure(cls: Any) -> Any:
    """`cls`, or what stands for it where it is a class of exceptions that assertions raise (`except NetworkError`).

    That equals it, and what the program raises of just that class is of it.
    """
    if isinstance(cls, type) and issubclass(AssertionError, cls) and issubclass(cls, BaseException):
        return _standing_for(cls)  # type: ignore[arg-type]
    return cls


@cache
def _standing_for(cls: Any) -> Any:
    return _CatchesNoFailure(cls.__name__, (cls,), {"__module__": cls.__module__, "__qualname__": cls.__name__})


class _Own:
    """Of an exception of the program's: what its class says of it, and the exception itself, where it can be asked."""

    _text: Any = None
    _ask: Any = None

    def __str__(self) -> str:
        return super().__str__() if self._text is None else str(self._text)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or self._ask is None:
            raise AttributeError(name)
        return getattr(self._ask, name)


_made: dict[tuple[type[BaseException], str, str], type[BaseException]] = {}


def _class(module: str, name: str) -> type[BaseException] | None:
    if module == "builtins":
        cls = getattr(builtins, name, None)
    elif module in _IMPORTED or (module in _PACKAGES and module in sys.modules):
        cls = getattr(importlib.import_module(module), name, None)
    else:
        cls = library.member(module, name)
    return cls if isinstance(cls, type) and issubclass(cls, BaseException) else None


def _of_package(module: str, name: str) -> type[BaseException] | None:
    """What is neither of the standard library nor of who judges (`_pytest`), and has been imported here."""
    cls = getattr(sys.modules.get(module), name, None) if _is_package(module) else None
    is_theirs = isinstance(cls, type) and issubclass(cls, Exception) and cls.__module__ == module
    return cls if is_theirs else None


def _is_package(module: str) -> bool:
    top = module.partition(".")[0]
    return not (top in sys.stdlib_module_names or top.startswith("_") or top in _NO_PACKAGES)


def _instance(cls: type[BaseException], args: tuple[Any, ...]) -> BaseException:
    try:
        return cls(*args)
    except Exception:  # its constructor wants something else than what it keeps
        return cls.__new__(cls, *args)


def _set_attribute(error: BaseException, name: str, value: Any) -> None:
    if isinstance(error, OSError) and name in ("filename", "filename2"):
        if value is not None:  # None would be shown as a name
            setattr(error, name, value)
    elif name == "__notes__":
        error.__dict__[name] = [str(note) for note in value]
    elif not name.startswith("_"):
        error.__dict__[name] = value
