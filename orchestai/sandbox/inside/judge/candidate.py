"""The candidate's process in split mode: loads the program and answers what is asked of it. It never sees the tests.

Frames received: `c`, a pickled dict with `operation` (see `OPERATIONS`), `args`, `kwargs` and perhaps `object`, the
number of one of the candidate's objects that comes before `args`, and `random`, the states of random number generators.
Frames sent: `l` loaded (1: the entry point is async), `f` failed to load (status and reason), `a` an answer. An answer
is a dict with `stdout`, `stderr`, `used` (see `Meter`) and one of `value`, `same` (the index of the argument that was
returned), `error` and `refused`, and with `changed`, the arguments that were mutated, and `random`, the states
afterwards.
"""

from __future__ import annotations

import io
import json
import pickle
import socket
import sys
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, nullcontext, suppress
from types import BuiltinFunctionType, CoroutineType, FunctionType, ModuleType
from typing import Any, TypeAlias

from ..ipc import arrays, exceptions, objects, randomness
from ..ipc.exceptions import describe
from ..ipc.objects import OPERATIONS, Objects
from ..ipc.output import Captured
from ..ipc.values import NotPlainError, encode, is_plain
from ..ipc.wire import ChannelClosedError, receive_frame, send_frame
from ..jail.meter import Meter
from .loading import MODULE, LoadError, load_candidate

_MUTABLE = (list, dict, set, bytearray, deque, Counter, OrderedDict, defaultdict, tuple)
_CO_COROUTINE = 0x80
_IMPORTED = (type, FunctionType, BuiltinFunctionType)


MakeHost: TypeAlias = "Callable[[ModuleType, socket.socket, Callable[[], dict[str, Any]]], Host]"


def serve(channel: socket.socket, source: str, entry_point: str, module: ModuleType, make_host: MakeHost) -> None:
    """Load the program and answer until the other end goes away."""
    stdout, stderr, meter = Captured("stdout"), Captured("stderr"), Meter()
    try:
        function = load_candidate(source, entry_point, module)
    except LoadError as error:
        send_frame(channel, b"f", json.dumps([error.status, error.reason]).encode())
        channel.recv(1)
        return
    host = make_host(module, channel, lambda: {"stdout": stdout.take(), "stderr": stderr.take(), "used": meter()})
    host.objects.number(function)
    send_frame(channel, b"l", b"1" if _is_async(function) else b"0")
    stdout.take()
    stderr.take()
    with suppress(ChannelClosedError):
        while True:
            host.serve_next()


class Host:
    """Does what is asked of the candidate's objects. Its entry point is object 0.

    Args:
        facts: gives what every answer says besides: what was printed and used.
    """

    def __init__(self, module: ModuleType, channel: socket.socket, facts: Callable[[], dict[str, Any]]) -> None:
        self.objects = Objects()
        self._channel = channel
        self._facts = facts
        self._operations: dict[str, Any] = {"names": lambda names: _named(module, names), "unpickle": _unpickle}

    def serve_next(self) -> None:
        """Wait for a request and answer it. Raises ChannelClosedError when the other end is gone."""
        self.respond(receive_frame(self._channel)[1])

    def respond(self, payload: bytes) -> None:
        answer = self._answer(payload) | self._facts()
        self._send(b"a", self._pickle(answer))

    def _send(self, kind: bytes, payload: bytes) -> None:
        send_frame(self._channel, kind, payload)

    def _request(self, payload: bytes) -> dict[str, Any]:
        request: dict[str, Any] = Request(io.BytesIO(payload), self.objects).load()
        return request

    def _in_world(self, request: dict[str, Any], answer: dict[str, Any]) -> AbstractContextManager[None]:
        """What holds while the program is asked something."""
        return nullcontext()

    def _failed(self, error: BaseException) -> dict[str, Any]:
        facts = exceptions.take_apart(error, is_plain)
        return {"error": facts if exceptions.is_known(error) else facts | {"number": self.objects.number(error)}}

    def _answer(self, payload: bytes) -> dict[str, Any]:
        try:
            request = self._request(payload)
        except (Exception, NotPlainError) as error:
            return {"refused": f"the arguments cannot enter the candidate's process: {describe(error)}"}
        args, kwargs = request["args"], request["kwargs"]
        if "object" in request:
            args = (self.objects[request["object"]], *args)
        given = (*args, *kwargs.values())
        before = {
            i: self._pickled(value)
            for i, value in enumerate(given)
            if type(value) in _MUTABLE or arrays.is_mutable(value)
        }
        if "random" in request:
            randomness.set_states(request["random"])
        answer: dict[str, Any] = {}
        try:
            with self._in_world(request, answer):
                operation = request["operation"]
                value = (OPERATIONS.get(operation) or self._operations[operation])(*args, **kwargs)
                if isinstance(value, CoroutineType):
                    import asyncio  # heavy, and seldom needed

                    value = asyncio.run(value)
            same = next((i for i in before if given[i] is value), None)
            answer |= {"value": value} if same is None else {"same": same}
        except BaseException as error:
            answer |= self._failed(error)
        answer["changed"] = {i: given[i] for i, pickled in before.items() if pickled != self._pickled(given[i])}
        if "random" in request:
            answer["random"] = randomness.get_states()
        return answer

    def _pickle(self, answer: dict[str, Any]) -> bytes:
        """`answer`, or why it cannot be sent."""
        try:
            return encode(answer, self.objects.number)
        except (Exception, NotPlainError) as error:
            reason = f"the answer cannot leave the candidate's process: {describe(error)}"
            kept = {name: answer[name] for name in ("stdout", "stderr", "used")}
            return pickle.dumps({"refused": reason, **kept})

    def _pickled(self, value: Any) -> bytes:
        """To tell whether an argument was changed."""
        try:
            return pickle.dumps(value)
        except Exception:
            return b""


def _unpickle(data: bytes, options: dict[str, Any]) -> tuple[Any, int]:
    """What the first pickle in `data` holds, and how long it is."""
    file = io.BytesIO(data)
    return pickle.load(file, **options), file.tell()


def _is_async(function: Any) -> bool:
    return bool(getattr(getattr(function, "__code__", None), "co_flags", 0) & _CO_COROUTINE)


class Request(pickle.Unpickler):
    def __init__(self, file: io.BytesIO, known: Objects) -> None:
        super().__init__(file)
        self._known = known

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == (objects.__name__, objects.at_home.__name__):
            return self._known.__getitem__
        return super().find_class(module, name)


def _named(module: ModuleType, names: Iterable[str]) -> dict[str, tuple[str, Any]]:
    """What the names stand for in the program.

    A module by its own name, a function or a class of a module that has it under that name by the module's, anything
    else as a value.
    """
    found: dict[str, tuple[str, Any]] = {}
    for name in names:
        if name in module.__dict__:
            value = module.__dict__[name]
            origin = str(getattr(value, "__module__", ""))
            if origin != MODULE:
                origin = origin.lstrip("_")  # what is of `_functools` is found in `functools` as well
            if isinstance(value, ModuleType):
                found[name] = "module", value.__name__
            elif isinstance(value, _IMPORTED) and origin != MODULE and _member(origin, name) is value:
                found[name] = "member", origin
            else:
                found[name] = "value", value
    return found


def _member(module: str, name: str) -> Any:
    return getattr(sys.modules.get(module), name, None)
