"""The candidate's process where tests are sealed from it: loads the program and answers its calls.

Frames received: `c`, a pickled dict with `args` and `kwargs` of a call, and `known`: the numbers of those of them that
may change. Frames sent: `l` loaded (1: the entry point is async), `f` failed to load (status and reason), `a` an
answer. That is a dict with `stdout`, `stderr` and one of `value`, `same` (the number of what came
back), `error` and `refused`; with `changed`, what has become of data that crossed before; and perhaps `keep`: the value
gets the next number.
"""

from __future__ import annotations

import json
import pickle
import socket
from collections.abc import Callable
from contextlib import suppress
from types import CoroutineType, ModuleType
from typing import Any

from ..ipc import exceptions
from ..ipc.arrays import may_change, mirror, state
from ..ipc.exceptions import describe
from ..ipc.output import Captured
from ..ipc.values import NotPlainError, encode, is_plain
from ..ipc.wire import ChannelClosedError, receive_frame, send_frame
from .loading import LoadError, load_candidate

_CO_COROUTINE = 0x80
KEPT = 16
"""Of the data that crossed, how many of the last are looked at again: a program may have kept what it got or gave."""


def serve(channel: socket.socket, source: str, entry_point: str, module: ModuleType) -> None:
    """Load the program and answer until the other end goes away."""
    stdout, stderr = Captured("stdout"), Captured("stderr")
    try:
        function = load_candidate(source, entry_point, module)
    except LoadError as error:
        send_frame(channel, b"f", json.dumps([error.status, error.reason]).encode())
        channel.recv(1)
        return
    host = Host(function)
    send_frame(channel, b"l", b"1" if _is_async(function) else b"0")
    stdout.take()
    stderr.take()
    with suppress(ChannelClosedError):
        while True:
            answer = host.answer(receive_frame(channel)[1])
            send_frame(channel, b"a", _pickled(answer | {"stdout": stdout.take(), "stderr": stderr.take()}))


class Host:
    """Calls the entry point, and tells what became of the data that crossed."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._function = function
        self._known: dict[int, tuple[Any, bytes]] = {}
        """By number, and how it was when it crossed."""

    def answer(self, payload: bytes) -> dict[str, Any]:
        try:
            request = pickle.loads(payload)
        except Exception as error:
            return {"refused": f"the arguments cannot enter the candidate's process: {describe(error)}"}
        args, kwargs = list(request["args"]), request["kwargs"]
        for place, number in request["known"].items():
            given: Any = args if type(place) is int else kwargs
            given[place] = self._meet(number, given[place])
        answer: dict[str, Any] = {}
        try:
            value = self._function(*args, **kwargs)
            if isinstance(value, CoroutineType):
                import asyncio  # heavy, and seldom needed

                value = asyncio.run(value)
            same = next((number for number, (known, _) in self._known.items() if known is value), None)
            answer |= {"value": value} if same is None else {"same": same}
        except BaseException as error:
            answer["error"] = exceptions.take_apart(error, is_plain)
        answer["changed"] = self._changed()
        if "value" in answer and may_change(answer["value"]):
            self._known[request["next"]] = answer["value"], state(answer["value"])
            answer["keep"] = True
        for number in [number for number in self._known if number <= request["next"] - KEPT]:
            del self._known[number]
        return answer

    def _meet(self, number: int, value: Any) -> Any:
        """What the program knows an argument as, with the content that it has now."""
        known = self._known.get(number, (None, b""))[0]
        if type(known) is type(value):
            mirror(known, value)
            value = known
        self._known[number] = value, state(value)
        return value

    def _changed(self) -> dict[int, Any]:
        changed = {}
        for number, (value, before) in self._known.items():
            if (now := state(value)) != before:
                changed[number] = value
                self._known[number] = value, now
        return changed


def _pickled(answer: dict[str, Any]) -> bytes:
    """`answer`, or why it cannot be sent."""
    try:
        return encode(answer)
    except (Exception, NotPlainError) as error:
        reason = f"the answer cannot leave the candidate's process: {describe(error)}"
        return pickle.dumps({"refused": reason, **{name: answer[name] for name in ("stdout", "stderr")}})


def _is_async(function: Any) -> bool:
    return bool(getattr(getattr(function, "__code__", None), "co_flags", 0) & _CO_COROUTINE)
