"""The candidate's process in split mode: loads the program and answers calls. It never sees the tests.

Frames received: `c`, a pickled (args, kwargs). Frames sent: `l` loaded (1: the entry point is async), `f` failed to
load (status and reason), `a` an answer. An answer is a pickled dict with `stdout` and one of `value`, `same` (the index
of the argument that was returned), `error` and `refused`, and with `changed`, the arguments that were mutated.
"""

from __future__ import annotations

import asyncio
import inspect
import io
import json
import pickle
import socket
import sys
from collections import deque
from collections.abc import Callable
from typing import Any

from .loading import LoadError, describe, load_candidate, new_module
from .values import decode
from .wire import ChannelClosedError, read_whole, receive_frame, send_frame

_MUTABLE = (list, dict, set, bytearray, deque)
_MAX_STDOUT = 1 << 18


class _Bounded(io.BytesIO):
    """Keeps the first _MAX_STDOUT bytes."""

    def write(self, data: Any) -> int:
        super().write(bytes(data)[: max(0, _MAX_STDOUT - self.tell())])
        return len(data)


class _Stdout:
    """Collects what the candidate prints through `sys.stdout`, so that the tests can see it."""

    def __init__(self) -> None:
        self._bytes = _Bounded()
        sys.stdout = io.TextIOWrapper(self._bytes, encoding="utf-8", errors="surrogateescape", write_through=True)

    def take(self) -> str:
        text = self._bytes.getvalue().decode("utf-8", "surrogateescape")
        self._bytes.seek(0)
        self._bytes.truncate()
        return text


def serve(channel: socket.socket, code: int, entry_point: str) -> None:
    """Load the program in the file `code` and answer calls until the other end goes away."""
    stdout = _Stdout()
    try:
        function = load_candidate(read_whole(code), entry_point, new_module())
    except LoadError as error:
        send_frame(channel, b"f", json.dumps([error.status, error.reason]).encode())
        channel.recv(1)
        return
    send_frame(channel, b"l", b"1" if inspect.iscoroutinefunction(function) else b"0")
    stdout.take()
    while True:
        try:
            _, payload = receive_frame(channel)
        except ChannelClosedError:
            return
        answer = _call(function, payload)
        answer["stdout"] = stdout.take()
        send_frame(channel, b"a", _pickle(answer))


def _call(function: Callable[..., Any], payload: bytes) -> dict[str, Any]:
    try:
        args, kwargs = pickle.loads(payload)
    except Exception as error:
        return {"refused": f"the arguments cannot enter the candidate's process: {describe(error)}"}
    arguments = (*args, *kwargs.values())
    before = {i: pickle.dumps(value) for i, value in enumerate(arguments) if type(value) in _MUTABLE}
    try:
        value = function(*args, **kwargs)
        if inspect.iscoroutine(value):
            value = asyncio.run(value)
        same = next((i for i in before if arguments[i] is value), None)
        answer: dict[str, Any] = {"value": value} if same is None else {"same": same}
    except BaseException as error:
        answer = {"error": _exception(error)}
    answer["changed"] = {
        i: arguments[i] for i, pickled in before.items() if pickled != (now := _plain(arguments[i])) and now
    }
    return answer


def _exception(error: BaseException) -> dict[str, Any]:
    args = error.args if _plain(error.args) else (describe(error),)
    return {"classes": [(cls.__module__, cls.__qualname__) for cls in type(error).__mro__], "args": args}


def _plain(value: Any) -> bytes:
    """`value` pickled, or nothing if the other side would refuse it."""
    try:
        pickled = pickle.dumps(value)
        decode(pickled)
    except Exception:
        return b""
    return pickled


def _pickle(answer: dict[str, Any]) -> bytes:
    try:
        return pickle.dumps(answer)
    except Exception as error:
        reason = f"the answer cannot leave the candidate's process: {describe(error)}"
        return pickle.dumps({"refused": reason, "stdout": answer["stdout"]})
