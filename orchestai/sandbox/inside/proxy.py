"""The entry point as the tests see it in split mode: a function that asks the candidate's process."""

from __future__ import annotations

import builtins
import importlib
import json
import os
import pickle
import socket
import sys
import threading
from collections import deque
from collections.abc import Callable
from typing import Any

from .loading import LoadError
from .values import NotPlainError, decode
from .wire import ChannelClosedError, receive_frame, send_frame

CANDIDATE_GONE = 71
_LOAD_FAULTS = ("syntax_error", "import_error", "no_entry_point", "memory")
_EXCEPTION_MODULES = frozenset(
    ("binascii", "configparser", "csv", "decimal", "json.decoder", "queue", "re", "statistics", "struct", "subprocess")
)


def connect(channel: socket.socket, name: str) -> Callable[..., Any]:
    """Wait until the candidate is loaded; gives its entry point's proxy. Raises LoadError."""
    kind, payload = _receive(channel)
    if kind == b"f":
        status, reason = json.loads(payload)
        raise LoadError(status if status in _LOAD_FAULTS else "import_error", str(reason))

    one_at_a_time = threading.Lock()

    def call(*args: Any, **kwargs: Any) -> Any:
        question = pickle.dumps((args, kwargs))
        with one_at_a_time:
            send_frame(channel, b"c", question)
            answer = _receive(channel)[1]
        return _answer(answer, (*args, *kwargs.values()))

    async def call_async(*args: Any, **kwargs: Any) -> Any:
        return call(*args, **kwargs)

    proxy = call_async if payload == b"1" else call
    proxy.__name__ = proxy.__qualname__ = name
    return proxy


def _receive(channel: socket.socket) -> tuple[bytes, bytes]:
    """The candidate's next frame. Ends this process when the candidate is gone: no test can catch that."""
    try:
        return receive_frame(channel)
    except ChannelClosedError:
        os._exit(CANDIDATE_GONE)


def _answer(payload: bytes, arguments: tuple[Any, ...]) -> Any:
    answer = decode(payload)
    if type(answer) is not dict:
        raise NotPlainError("unreadable answer")
    sys.stdout.write(str(answer.get("stdout", "")))
    if "refused" in answer:
        raise NotPlainError(str(answer["refused"]))
    changed = answer.get("changed")
    for i, value in changed.items() if type(changed) is dict else ():
        if type(i) is int and 0 <= i < len(arguments):
            _mirror(arguments[i], value)
    if "error" in answer:
        raise _exception(answer["error"])
    if "same" in answer:
        return arguments[answer["same"]]
    return answer["value"]


def _mirror(target: Any, value: Any) -> None:
    """Give `target` the content of `value` if both are of the same mutable plain type."""
    if type(target) is not type(value):
        return
    if isinstance(target, (list, bytearray)):
        target[:] = value
    elif isinstance(target, (dict, set, deque)):
        target.clear()
        getattr(target, "extend" if isinstance(target, deque) else "update")(value)


def _exception(facts: Any) -> BaseException:
    """The first of the exception's classes that is a builtin or an allowed module's, with the same arguments."""
    args = facts["args"]
    for module, name in facts["classes"]:
        if module != "builtins" and module not in _EXCEPTION_MODULES:
            continue
        cls = getattr(builtins if module == "builtins" else importlib.import_module(module), name, None)
        if isinstance(cls, type) and issubclass(cls, BaseException):
            try:
                error = cls.__new__(cls, *args)
            except Exception:
                continue
            error.args = tuple(args)
            return error
    return NotPlainError("the function raised something that is no exception")
