"""What the tests hand to the program that cannot be copied: their functions, mocks, open files and own objects.

Those stay in the tests' process; the program's gets stand-ins for them (see `imports`), and what it does with one is
done here. What a stand-in may be used for is what code that was given the thing would do with it: call, iterate, read
and set public attributes. Nothing leads from it to the tests themselves, as the frame of a generator, the globals of a
function or the expectations of a mock would.
"""

from __future__ import annotations

import io
import pickle
import sys
from collections.abc import Callable
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

from . import exceptions, mocks
from .imports import from_tests, make_named_tuple, named_module
from .mocks import hush, is_mock
from .stand_ins import Remote
from .values import NotPlainError, decode, is_plain

SPECIAL = frozenset(
    (
        *("__call__", "__len__", "__bool__", "__contains__", "__iter__", "__next__", "__reversed__", "__enter__"),
        *("__exit__", "__getitem__", "__setitem__", "__delitem__", "__int__", "__float__", "__index__", "__fspath__"),
        *("__add__", "__radd__", "__sub__", "__rsub__", "__mul__", "__rmul__", "__truediv__", "__rtruediv__"),
        *("__pow__", "__rpow__", "__floordiv__", "__mod__", "__neg__", "__abs__", "__round__"),
        *("__eq__", "__lt__", "__le__", "__gt__", "__ge__", "__str__", "__repr__"),
    )
)
"""Methods that the interpreter calls by itself, and that stand-ins have where the thing has them."""
_FILE = (
    *("read", "read1", "readinto", "readline", "readlines", "write", "writelines", "seek", "tell", "truncate"),
    *("flush", "close", "closed", "getvalue", "getbuffer", "name", "mode", "encoding", "errors", "newlines"),
    *("isatty", "readable", "writable", "seekable", "line_buffering"),
)
_OPEN = {
    ("io", "IOBase"): _FILE,
    ("tempfile", "_TemporaryFileWrapper"): _FILE,
    ("socket", "socket"): (
        *("recv", "recv_into", "recvfrom", "send", "sendall", "sendto", "makefile", "close", "shutdown", "setsockopt"),
        *("getsockopt", "getsockname", "getpeername", "settimeout", "gettimeout", "setblocking", "family", "type"),
    ),
    ("sqlite3", "Connection"): (
        *("cursor", "execute", "executemany", "executescript", "commit", "rollback", "close", "in_transaction"),
        *("total_changes", "row_factory"),
    ),
    ("sqlite3", "Cursor"): (
        *("execute", "executemany", "executescript", "fetchone", "fetchall", "fetchmany", "close", "description"),
        *("rowcount", "lastrowid", "connection", "row_factory"),
    ),
}
"""What the program may use of the libraries' things that cannot be copied."""
_ITERATOR = ("send", "throw", "close")
_CALLABLE = (FunctionType, MethodType, BuiltinFunctionType, type)


class Exports:
    """Things of the tests by number.

    Args:
        module: name of the module that holds the tests.

    Attributes:
        failure: an assertion of the tests failed in what the program called; the program cannot undo that.
    """

    def __init__(self, module: str) -> None:
        self.failure: AssertionError | None = None
        self._module = module
        self._things: list[Any] = []
        self._numbers: dict[int, int] = {}
        self._raised: list[BaseException] = []

    def number(self, thing: Any) -> int:
        if id(thing) not in self._numbers:
            self._numbers[id(thing)] = len(self._things)
            self._things.append(thing)
        return self._numbers[id(thing)]

    def answered(self, number: int) -> Any:
        """The thing of a number, with which the program answers."""
        thing = self._things[number]
        hush(thing)
        return thing

    def raised(self, number: int) -> BaseException:
        """What was raised here when the program asked, by the number that it was told."""
        return self._raised[number]

    def pickled(self, value: Any) -> bytes:
        """`value` for the program's process, with stand-ins where it cannot be copied.

        Raises:
            NotPlainError: some of it can neither be copied nor stay.
        """
        buffer = io.BytesIO()
        try:
            _Pickler(buffer, self).dump(value)
        except Exception as error:
            raise NotPlainError(f"the arguments cannot leave the tests' process: {error}") from None
        return buffer.getvalue()

    def answer(self, payload: bytes, remote: Callable[[int, str], Any]) -> bytes:
        """Do what the program asks of a thing; the answer to send.

        Args:
            remote: as for `decode`.
        """
        try:
            operation, number, args, kwargs = decode(payload, remote)
            if type(number) is not int or not 0 <= number < len(self._things):
                raise NotPlainError("not a thing of the tests")
            with mocks.asked_by_program():
                value = self._do(operation, self._things[number], args, kwargs)
            return self.pickled({"value": value})
        except BaseException as error:
            if isinstance(error, AssertionError):
                self.failure = error
            self._raised.append(error)
            facts = exceptions.take_apart(error, is_plain)
            return self.pickled({"error": facts, "number": len(self._raised) - 1})

    def _do(self, operation: str, thing: Any, args: Any, kwargs: Any) -> Any:
        if operation == "special" and args[0] == "__call__":
            return thing(*args[1:], **kwargs)
        if operation == "special" and args[0] in SPECIAL:
            if isinstance(method := vars(type(thing)).get(args[0]), mocks.Hushed):
                return method.to_program()
            return getattr(thing, args[0])(*args[1:], **kwargs)
        name = str(args[0])
        if not self._is_open(thing, name):
            raise AttributeError(f"{type(thing).__name__!r} object has no attribute {name!r}")
        if operation == "get":
            return getattr(thing, name)
        if operation == "set":
            if not _may_be_set(thing, name, args[1]):
                raise NotPlainError(f"the tests rest on what {name} is, which is theirs")
            return setattr(thing, name, args[1])
        raise NotPlainError(f"no operation on a thing of the tests: {operation}")

    def _is_open(self, thing: Any, name: str) -> bool:
        """Whether the program may read and set this attribute."""
        cls = type(thing)
        if is_mock(thing):
            return mocks.is_open(thing, name)
        if name.startswith("_"):
            return False
        if (names := _open_names(cls)) is not None:
            return name in names
        if issubclass(cls, _CALLABLE):
            return issubclass(cls, type) and thing.__module__ == self._module
        if cls.__module__ == self._module:
            return True
        return hasattr(cls, "__next__") and name in _ITERATOR

    def stays(self, value: Any) -> bool:
        """Whether a value has to stay here."""
        cls = type(value)
        if issubclass(cls, Remote):
            return False
        if cls.__module__ == self._module:
            if any(base.__name__ == "TestCase" for base in cls.__mro__):
                raise NotPlainError("a test case itself")
            return True
        if issubclass(cls, type):
            if any(base.__name__ == "TestCase" for base in value.__mro__):
                raise NotPlainError("a class of test cases")
            return str(value.__module__) == self._module
        if issubclass(cls, FunctionType):
            return value.__module__ == self._module or "<" in value.__qualname__
        if issubclass(cls, (MethodType, BuiltinFunctionType)):
            return not issubclass(type(value.__self__), (ModuleType, type, type(None)))
        if _open_names(cls) is not None or (hasattr(cls, "__next__") and hasattr(cls, "__iter__")):
            return True
        return is_mock(value)


class _Pickler(pickle.Pickler):
    def __init__(self, file: io.BytesIO, exports: Exports) -> None:
        super().__init__(file, protocol=5)
        self._exports = exports

    def reducer_override(self, value: Any) -> Any:
        cls = type(value)
        if isinstance(fields := getattr(cls, "_fields", None), tuple) and self._exports.stays(value):
            return make_named_tuple, (cls.__name__, fields, tuple(value))
        if self._exports.stays(value):
            return from_tests, (self._exports.number(value), _facts(value))
        if issubclass(cls, ModuleType):
            return named_module, (value.__name__,)
        return NotImplemented


def _may_be_set(thing: Any, name: str, value: Any) -> bool:
    """Whether the program may put `value` there: not objects of its own where tests look for what a mock was asked, or
    for what their own classes do."""
    if is_plain(value):
        return True
    if is_mock(thing):
        return False
    return not callable(getattr(thing if issubclass(type(thing), type) else type(thing), name, None))


def _facts(thing: Any) -> dict[str, Any]:
    """What the program's process must know of a thing to make a stand-in."""
    cls = type(thing)
    if issubclass(cls, type):
        return {"kind": "class", "name": thing.__name__}
    if issubclass(cls, _CALLABLE):
        return {"kind": "function", "name": thing.__name__, "doc": thing.__doc__, **_signature(thing)}
    own = {name for name in SPECIAL if _has(thing, name)}
    if is_mock(thing):
        own.discard("__eq__")
        named = thing.__class__ if thing.__class__ is not cls else None
    else:
        named = cls
    where = (named.__module__, named.__qualname__) if named is not None else None
    return {"kind": "object", "name": cls.__name__, "special": sorted(own), "class": where}


def _has(thing: Any, name: str) -> bool:
    """Whether a thing has a special method of its own; a mock is not asked, which would have it make one."""
    method = mocks.method_of(thing, name) if is_mock(thing) else getattr(type(thing), name, None)
    return method is not None and method is not getattr(object, name, None)


def _signature(function: Any) -> dict[str, Any]:
    import inspect  # heavy, and seldom needed

    try:
        parameters = inspect.signature(function).parameters.values()
    except (ValueError, TypeError):
        return {}
    facts = [(one.name, int(one.kind), one.default is not one.empty, one.default) for one in parameters]
    return {
        "parameters": [(name, kind, default if has else None, has) for name, kind, has, default in facts],
        "annotations": dict(getattr(function, "__annotations__", {})),
    }


def _open_names(cls: type) -> tuple[str, ...] | None:
    for (module, name), names in _OPEN.items():
        known = getattr(sys.modules.get(module), name, None)
        if isinstance(known, type) and issubclass(cls, known):
            return names
    return None
