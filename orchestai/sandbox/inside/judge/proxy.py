"""The candidate as the tests see it in split mode: functions and objects that ask its process."""

from __future__ import annotations

import json
import os
import pickle
import socket
import sys
import threading
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from types import ModuleType
from typing import Any

from ..ipc import arrays, exceptions, randomness
from ..ipc.exceptions import catching_no_failure
from ..ipc.stand_ins import Remote, RemoteFunction, stand_ins
from ..ipc.values import NamesClassError, NotPlainError, decode, decode_primitive
from ..ipc.wire import ChannelClosedError, receive_frame, send_frame
from .guard import Guard
from .loading import MODULE, LoadError

CANDIDATE_GONE = 71
_ALIASES = {"np": "numpy", "numpy": "numpy", "pd": "pandas", "pandas": "pandas", "plt": "matplotlib.pyplot"}
"""Names that mean these modules, whatever the program made of them."""
_NEVER_IMPORTED = frozenset(
    (MODULE, __name__.partition(".")[0], "unittest", "test", "idlelib", "lib2to3", "turtledemo", "this", "antigravity")
)
_LIBRARIES = sys.stdlib_module_names - _NEVER_IMPORTED
_CONTAINERS = (list, deque, dict, set, bytearray, tuple)
_LOAD_FAULTS = ("syntax_error", "import_error", "no_entry_point", "memory")


def connect(
    channel: socket.socket, name: str, guard: Guard, kind_of: type[Candidate], *, follow_random: bool, may_stop: bool
) -> Candidate:
    """Wait until the candidate is loaded. Raises LoadError."""
    kind, payload = receive(channel)
    if kind == b"f":
        status, reason = json.loads(payload)
        raise LoadError(status if status in _LOAD_FAULTS else "import_error", str(reason))
    return kind_of(channel, name, guard, is_async=payload == b"1", follow_random=follow_random, may_stop=may_stop)


class Candidate:
    """Asks the candidate's process for what the tests want of it.

    Args:
        follow_random: both processes draw from the same random numbers, so that tests may seed them.
        may_stop: tests expect that it raises StopIteration. To others that is a RuntimeError, as what a generator lets
            out is (PEP 479): it would end the tests' loops (`zip(map(task_func, given), expected)`).

    Attributes:
        used: what the candidate's process says that it has used so far; see `Meter`.
        raised: whether an answer was an exception.
        is_plain: whether it answers at once, and all answers could be decoded, and named no class.
    """

    def __init__(
        self, channel: socket.socket, name: str, guard: Guard, *, is_async: bool, follow_random: bool, may_stop: bool
    ) -> None:
        self._channel = channel
        self._guard = guard
        self._follow_random = follow_random
        self._may_stop = may_stop
        self._one_at_a_time: Any = threading.Lock()
        self._remote = self._stand_in()
        guard.unpickle_by(self.ask)
        self.used = (0.0, 0)
        self.raised = False
        self.is_plain = not is_async
        self.entry_point = self._entry_point(name, is_async)

    def ask(self, operation: str, /, *args: Any, **kwargs: Any) -> Any:
        """The result of an operation on the candidate's side, or the exception that it raised."""
        request: dict[str, Any] = {"operation": operation, "args": args, "kwargs": kwargs}
        if args and issubclass(type(args[0]), Remote):
            request |= {"object": args[0]._number, "args": args[1:]}  # a name in a pickle takes as long as all the rest
        with self._one_at_a_time:
            if self._follow_random:
                request["random"] = randomness.get_states()
            send(self._channel, b"c", self._pickled(request))
            payload = self._receive()
        try:
            answer = decode_primitive(payload)
        except NamesClassError:
            self.is_plain = False
            answer = decode(payload, self._remote)
        except NotPlainError:
            self.is_plain = False
            raise
        if type(answer) is not dict:
            raise NotPlainError("unreadable answer")
        if self._follow_random and "random" in answer:
            self._follow(answer["random"])
        self.used = _figures(answer.get("used")) or self.used
        self.raised = self.raised or "error" in answer
        try:
            return self._taken(answer, (*args, *kwargs.values()))
        except StopIteration as error:
            if operation == "next" or self._may_stop:
                raise
            raise RuntimeError("the program raised StopIteration") from error

    def _stand_in(self) -> Callable[[int, str], Any]:
        return stand_ins(self.ask)

    def _pickled(self, request: dict[str, Any]) -> bytes:
        try:
            return pickle.dumps(request)
        except Exception as error:
            raise NotPlainError(f"the arguments cannot leave the tests' process: {error}") from None

    def _receive(self) -> bytes:
        """The payload of the answer."""
        return receive(self._channel)[1]

    def _taken(self, answer: dict[str, Any], arguments: tuple[Any, ...]) -> Any:
        """The value in an answer, after its other effects have been repeated here."""
        return _taken(answer, arguments, self._remote)

    @staticmethod
    def _follow(states: Any) -> None:
        try:
            randomness.set_states(states)
        except Exception as error:
            raise NotPlainError(f"random states that are none: {error}") from None

    def names(self, wanted: Sequence[str], members: Mapping[str, Sequence[str]] | None = None) -> dict[str, Any]:
        """Those of the names that the program has defined.

        Modules are this process's own, and so is what has been imported from them under its own name. A name that has
        the `members` of a module of that name, or of the class in it (`datetime`), is that, whatever the program made
        of it.
        """
        if not wanted:
            return {}
        answer = self.ask("names", list(wanted))
        values = {}
        for name in wanted:
            if name not in answer:
                continue
            kind, value = answer[name]
            if name in _ALIASES:
                kind, value = "module", _ALIASES[name]
            elif (meant := self._meant(name, (members or {}).get(name, ()))) is not None:
                kind, value = "value", meant
            if kind == "value":
                values[name] = value
            elif _may_be_imported(str(value)):
                module = self._guard.import_module(str(value))
                values[name] = module if kind == "module" else catching_no_failure(getattr(module, name, None))
        return values

    def _meant(self, name: str, members: Sequence[str]) -> Any:
        """The module of a library, or the class in it, that the tests mean by a name with these members, if any."""
        if not members or name not in _LIBRARIES:
            return None
        with suppress(ImportError):
            module = self._guard.import_module(name)
            for meant in (module, getattr(module, name, None)):
                if isinstance(meant, (ModuleType, type)) and all(hasattr(meant, member) for member in members):
                    return meant
        return None

    def _entry_point(self, name: str, is_async: bool) -> Callable[..., Any]:
        function = RemoteFunction(self.ask, 0)  # without asking of which class it is
        if not is_async:
            return function

        async def call(*args: Any, **kwargs: Any) -> Any:
            return function(*args, **kwargs)

        call.__name__ = call.__qualname__ = name
        return call


def send(channel: socket.socket, kind: bytes, payload: bytes) -> None:
    """Give the candidate a frame. Ends this process when the candidate is gone, as `receive` does."""
    try:
        send_frame(channel, kind, payload)
    except (BrokenPipeError, ConnectionResetError):
        os._exit(CANDIDATE_GONE)


def receive(channel: socket.socket) -> tuple[bytes, bytes]:
    """The candidate's next frame. Ends this process when the candidate is gone: no test can catch that."""
    try:
        return receive_frame(channel)
    except ChannelClosedError:
        os._exit(CANDIDATE_GONE)


def _figures(used: Any) -> tuple[float, int] | None:
    if type(used) is tuple and len(used) == 2 and type(used[0]) is float and type(used[1]) is int:
        return used if abs(used[1]) <= sys.maxsize else None
    return None


def _taken(answer: dict[str, Any], arguments: tuple[Any, ...], remote: Callable[[int, str], Any]) -> Any:
    """The value in an answer, after its other effects have been repeated here."""
    for stream, name in ((sys.stdout, "stdout"), (sys.stderr, "stderr")):
        if printed := answer.get(name):
            stream.write(str(printed))
    if "refused" in answer:
        raise NotPlainError(str(answer["refused"]))
    changed = answer.get("changed")
    for i, value in changed.items() if type(changed) is dict else ():
        if type(i) is int and 0 <= i < len(arguments):
            _mirror(arguments[i], value)
    if "error" in answer:
        raise _exception(answer["error"], remote)
    if "same" in answer:
        return arguments[answer["same"]]
    return answer["value"]


def _mirror(target: Any, value: Any) -> None:
    """Give `target` the content of `value` if both are of the same mutable plain type, and so on inside."""
    if type(target) is not type(value):
        return
    if isinstance(target, (list, deque)):
        old = list(target)
        target.clear()
        target.extend(_merged(old[i], new) if i < len(old) else new for i, new in enumerate(value))
    elif isinstance(target, dict):
        before = dict(target)
        target.clear()
        dict.update(target, {key: _merged(before[key], new) if key in before else new for key, new in value.items()})
    elif isinstance(target, tuple):
        for old, new in zip(target, value, strict=True):
            _merged(old, new)
    elif isinstance(target, set):
        target.clear()
        target.update(value)
    elif isinstance(target, bytearray):
        target[:] = value
    elif arrays.is_mutable(target):
        arrays.replace_content(target, value)


def _merged(old: Any, new: Any) -> Any:
    """`old`, made equal to `new`, where it is something that a function may have changed in place; else `new`."""
    if type(old) is not type(new) or not (isinstance(old, _CONTAINERS) or arrays.is_mutable(old)):
        return new
    if isinstance(old, tuple):
        if len(old) != len(new) or not (type(new) is tuple or hasattr(new, "_make")):
            return new
        return tuple.__new__(type(new), (_merged(*pair) for pair in zip(old, new, strict=True)))
    _mirror(old, new)
    return old


def _exception(facts: Any, remote: Callable[[int, str], Any]) -> BaseException:
    number = facts.get("number")
    error = exceptions.put_together(facts, remote(number, "object") if type(number) is int and number >= 0 else None)
    return error if error is not None else NotPlainError("the function raised something that is no exception")


def _may_be_imported(module: str) -> bool:
    """Whether this process may import what the program says its name stands for.

    Nothing that runs code of the working directory when it is imported (`unittest.__main__`), and nothing of the judge.
    """
    parts = module.split(".")
    if parts[0] in _NEVER_IMPORTED or any(not part.isidentifier() or part.startswith("_") for part in parts):
        return False
    return module in sys.modules or find_spec(parts[0]) is not None
