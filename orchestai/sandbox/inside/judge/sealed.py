"""The process of sealed tests: the candidate is a function there that asks its process, and a guard executes nothing
that the program wrote."""

from __future__ import annotations

import builtins
import importlib
import json
import os
import socket
import sys
import threading
from collections.abc import Callable, Iterable
from contextlib import suppress
from types import FrameType
from typing import Any, NoReturn

from .. import words
from ..ipc import exceptions
from ..ipc.arrays import may_change, mirror
from ..ipc.values import NamesClassError, NotPlainError, decode, decode_primitive, encode_arguments
from ..ipc.wire import ChannelClosedError, receive_frame, send_frame
from .candidate import KEPT, LoadError

CANDIDATE_GONE = 71
LOAD_FAULTS = ("syntax_error", "import_error", "no_entry_point", "memory")
_IMPORTERS = words("importlib._bootstrap importlib._bootstrap_external zipimport")
_RUNS_MODULE = "_call_with_frames_removed"
_GENERATORS = words(
    "attr collections dataclasses decorator enum matplotlib numpy pandas scipy seaborn sklearn traitlets types unittest"
) | {__name__.partition(".")[0]}
"""Packages that write code of their own and run it, and no text of others."""
_EVALUATORS = ("pandas.core.computation", "pandas.eval")
"""Modules in them that do run texts, by parsing them."""
_RESOLVERS = words("yaml.constructor jsonpickle.unpickler logging.config")
"""Modules that call whatever a text names; they import its module first."""
_PICKLED = words(
    "_codecs.encode builtins.bytearray builtins.bytes builtins.complex builtins.dict builtins.frozenset builtins.list "
    "builtins.range builtins.set builtins.slice builtins.tuple collections.OrderedDict collections.defaultdict "
    "collections.deque datetime.date datetime.datetime datetime.time datetime.timedelta datetime.timezone"
)
_SYSTEM = ("/usr/lib", "/lib")
_FIRST = 1
"""Process id in a namespace of its own, where `_HOME` can be written, and by nobody else."""
_HOME = os.path.dirname(os.path.dirname(__file__))


class Candidate:
    """Asks the candidate's process for what the tests want of it, once it is loaded. Raises LoadError.

    Attributes:
        raised: whether an answer was an exception.
        is_plain: whether it answers at once, and all answers could be decoded, and named no class.
        entry_point: the function that tests call.
    """

    def __init__(self, channel: socket.socket, name: str) -> None:
        self._channel = channel
        self._one_at_a_time = threading.Lock()
        self._known: dict[int, Any] = {}
        """Data that crossed and may change, by number; the candidate's process has copies."""
        self._next = 0
        self.raised = False
        kind, payload = self._receive()
        if kind == b"f":
            status, reason = json.loads(payload)
            raise LoadError(status if status in LOAD_FAULTS else "import_error", str(reason))
        self.is_plain = payload != b"1"

        async def call_async(*args: Any, **kwargs: Any) -> Any:
            return self.ask(args, kwargs)

        def call(*args: Any, **kwargs: Any) -> Any:
            return self.ask(args, kwargs)

        self.entry_point: Callable[..., Any] = call_async if payload == b"1" else call
        self.entry_point.__name__ = self.entry_point.__qualname__ = name

    def ask(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """The result of a call of the entry point, or the exception that it raised."""
        with self._one_at_a_time:
            known = {place: self._number(value) for place, value in (*enumerate(args), *kwargs.items())}
            known = {place: number for place, number in known.items() if number is not None}
            number, self._next = self._next, self._next + 1
            request = encode_arguments({"args": args, "kwargs": kwargs, "known": known, "next": number})
            try:
                send_frame(self._channel, b"c", request)
            except (BrokenPipeError, ConnectionResetError):
                os._exit(CANDIDATE_GONE)
            payload = self._receive()[1]
        try:
            answer = decode_primitive(payload)
        except (NamesClassError, NotPlainError):
            self.is_plain = False
            answer = decode(payload)
        if type(answer) is not dict:
            raise NotPlainError("unreadable answer")
        self.raised = self.raised or "error" in answer
        try:
            return self._taken(answer, number)
        except StopIteration as error:  # it would end the tests' loops (`zip(map(task_func, given), expected)`)
            raise RuntimeError("the program raised StopIteration") from error

    def _receive(self) -> tuple[bytes, bytes]:
        """The candidate's next frame. Ends this process when the candidate is gone: no test can catch that."""
        try:
            return receive_frame(self._channel)
        except ChannelClosedError:
            os._exit(CANDIDATE_GONE)

    def _number(self, value: Any) -> int | None:
        if not may_change(value):
            return None
        for number, known in self._known.items():
            if known is value:
                return number
        self._known[self._next] = value
        self._next += 1
        for number in [number for number in self._known if number <= self._next - 2 * KEPT]:
            del self._known[number]
        return self._next - 1

    def _taken(self, answer: dict[str, Any], number: int) -> Any:
        """The value in an answer, after its other effects have been repeated here."""
        for stream, name in ((sys.stdout, "stdout"), (sys.stderr, "stderr")):
            if printed := answer.get(name):
                stream.write(str(printed))
        if "refused" in answer:
            raise NotPlainError(str(answer["refused"]))
        changed = answer.get("changed")
        for known, value in changed.items() if type(changed) is dict else ():
            if known in self._known:
                mirror(self._known[known], value)
        if "error" in answer:
            error = exceptions.put_together(answer["error"])
            raise NotPlainError("the function raised something that is no exception") if error is None else error
        if "same" in answer:
            return self._known[answer["same"]]
        if answer.get("keep") is True:
            self._known[number] = answer["value"]
        return answer["value"]


class Guard:
    """Keeps what a program wrote from acting in the process that makes it, for good, whatever files its tests load.

    Told by what is executed, which audit hooks (PEP 578) see, not by the names that tests use. What this process may
    execute is its own code and that of modules that `sys.path` leads to by now; else NotPlainError is raised. Tests
    whose source shows that they need more are judged open.
    """

    def __init__(self) -> None:
        self._trusted = tuple(os.path.join(os.path.abspath(folder), "") for folder in sys.path) + _SYSTEM
        self._checks: dict[str, Callable[..., None]] = {
            "compile": self._check_text,
            "exec": self._check_code,
            "code.__new__": self._check_code,
            "marshal.loads": self._check_code,
            "import": self._check_extension,
            "ctypes.dlopen": self._check_extension,
            "sqlite3.load_extension": self._check_extension,
            "pickle.find_class": self._check_pickled,
        }
        self._import = builtins.__import__
        builtins.__import__ = self._import_checked
        sys.addaudithook(self._hear)

    def import_modules(self, names: Iterable[str]) -> None:
        """Import what tests will, where no file of the program is that modules might take for settings."""
        missing = [name for name in names if name not in sys.modules]
        if not missing:
            return
        folder, home = os.open(".", os.O_RDONLY), os.environ.get("HOME", "")
        os.chdir("/")
        try:
            if os.getpid() == _FIRST:
                os.environ["HOME"] = _HOME
            for name in missing:
                with suppress(Exception):  # the tests will say so themselves
                    importlib.import_module(name)
        finally:
            os.environ["HOME"] = home
            os.fchdir(folder)
            os.close(folder)

    def _hear(self, event: str, args: tuple[Any, ...]) -> None:
        if (check := self._checks.get(event)) is not None:
            check(sys._getframe(1), *args)

    def _check_text(self, caller: FrameType | None, *_: Any) -> None:
        while caller is not None and _module(caller) == "ast":
            caller = caller.f_back
        if caller is not None and _module(caller).startswith(_EVALUATORS):
            _refuse("evaluate a text")

    def _check_code(self, caller: FrameType | None, *_: Any) -> None:
        if caller is not None and _module(caller).partition(".")[0] in _GENERATORS:
            return
        frame = caller
        while frame is not None:  # modules may run what they like while they are imported
            if _module(frame) in _IMPORTERS:
                return self._check_origin(frame) if frame.f_code.co_name == _RUNS_MODULE else None
            frame = frame.f_back
        _refuse("run code that is no module's")

    def _check_origin(self, frame: FrameType) -> None:
        args = frame.f_locals.get("args", ())
        if len(args) == 2 and type(args[1]) is dict:
            path = getattr(args[1].get("__spec__"), "origin", None)
            if not self._is_trusted(path):
                _refuse(f"run {path}")

    def _check_extension(self, _: FrameType, *facts: Any) -> None:
        path = facts[0] if len(facts) < 3 else facts[1] or ""  # an import tells more, the module's name first
        if not isinstance(path, str) or ("/" in path and not self._is_trusted(path)):
            _refuse(f"load {path}")

    def _check_pickled(self, _: FrameType, module: str, name: str) -> None:
        if f"{module}.{name}" not in _PICKLED:
            _refuse(f"unpickle {module}.{name}")

    def _is_trusted(self, path: Any) -> bool:
        return isinstance(path, str) and os.path.abspath(path).startswith(self._trusted)

    def _import_checked(self, name: str, *args: Any, **kwargs: Any) -> Any:
        caller = sys._getframe(1)
        if _module(caller) in _RESOLVERS and caller.f_code.co_name != "<module>":
            _refuse(f"call what a text names, of {name}")
        return self._import(name, *args, **kwargs)


def _module(frame: FrameType) -> str:
    return str(frame.f_globals.get("__name__"))


def _refuse(what: str) -> NoReturn:
    raise NotPlainError(f"the tests would {what}, which the program may have written; they cannot be judged sealed")
