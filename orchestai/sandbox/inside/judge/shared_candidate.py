"""The candidate's process in `shared` isolation: the program has the tests' world, and calls what they hand to it."""

from __future__ import annotations

import fcntl
import importlib
import io
import select
import socket
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager, suppress
from functools import partial
from types import ModuleType
from typing import Any

from ..ipc import exceptions, imports
from ..ipc.imports import Imports
from ..ipc.objects import Objects
from ..ipc.values import NotPlainError, encode
from ..ipc.wire import receive_frame
from ..ipc.world import ProgramWorld
from .candidate import Host, Request

_PATIENCE_S = 2.0


class SharedHost(Host):
    """See `Host`. Frames sent besides answers: `k`, what is asked of a thing of the tests; received: `r`, the reply."""

    def __init__(
        self, module: ModuleType, channel: socket.socket, facts: Callable[[], dict[str, Any]], *, file: int
    ) -> None:
        super().__init__(module, channel, facts)
        self._imports = Imports(self._ask)
        self.objects = _SharedObjects(self._imports)
        self._operations["imports"] = partial(_import, module)
        self._world = ProgramWorld(module)
        self._hears, self._speaks = _Turn(file), threading.Lock()
        threading._start_new_thread = _patiently(threading._start_new_thread)  # type: ignore[attr-defined]

    def serve_next(self) -> None:
        while True:
            select.select([self._channel], [], [])
            with self._hears:  # a thread of the program may be calling something, and read the request
                if not select.select([self._channel], [], [], 0)[0]:
                    continue
                _, payload = receive_frame(self._channel)
            return self.respond(payload)

    def _send(self, kind: bytes, payload: bytes) -> None:
        with self._speaks:
            super()._send(kind, payload)

    def _pickled(self, value: Any) -> bytes:
        try:
            return encode(value, self.objects.number)
        except (Exception, NotPlainError):
            return b""

    def _request(self, payload: bytes) -> dict[str, Any]:
        return _SharedRequest(io.BytesIO(payload), self.objects, self._imports).load()

    def _in_world(self, request: dict[str, Any], answer: dict[str, Any]) -> AbstractContextManager[None]:
        return self._world.of(request["world"], answer)

    def _failed(self, error: BaseException) -> dict[str, Any]:
        raised = getattr(error, "_raised_by_tests", None)
        return super()._failed(error) | ({"raised": raised} if type(raised) is int else {})

    def _ask(self, operation: str, thing: Any, /, *args: Any, **kwargs: Any) -> Any:
        with self._hears:
            self._send(b"k", encode((operation, self._imports.number(thing), args, kwargs), self.objects.number))
            while True:
                kind, payload = receive_frame(self._channel)
                if kind == b"r":
                    break
                self.respond(payload)
        reply = self._request(payload)
        if "error" not in reply:
            return reply["value"]
        error = exceptions.put_together(reply["error"]) or RuntimeError("the tests raised something else")
        error._raised_by_tests = reply["number"]  # type: ignore[attr-defined]
        raise error


def _import(module: ModuleType, names: Iterable[tuple[str, str, str]]) -> None:
    """Have in the program's module what the tests import in theirs, as if it were the same."""
    for name, source, member in names:
        with suppress(Exception):
            found = importlib.import_module(source)
            module.__dict__[name] = getattr(found, member) if member else found


class _Turn:
    """To be heard by the tests: one thread of one process of the program at a time. They share the open `file`."""

    def __init__(self, file: int) -> None:
        self._threads = threading.RLock()
        self._depth = 0
        self._file = file

    def __enter__(self) -> None:
        self._threads.acquire()
        self._depth += 1
        if self._depth == 1:
            fcntl.lockf(self._file, fcntl.LOCK_EX)

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        if self._depth == 0:
            fcntl.lockf(self._file, fcntl.LOCK_UN)
        self._threads.release()


def _patiently(start: Callable[..., Any]) -> Callable[..., Any]:
    """`start` a thread, when there can be another: those that wait for the tests' mocks live longer than they would."""

    def patient(*args: Any) -> Any:
        give_up = time.monotonic() + _PATIENCE_S
        while time.monotonic() < give_up:
            with suppress(RuntimeError):
                return start(*args)
            time.sleep(0.001)
        return start(*args)

    return patient


class _SharedObjects(Objects):
    def __init__(self, known: Imports) -> None:
        super().__init__()
        self._imports = known

    def number(self, value: Any) -> int:
        number = self._imports.number(value)
        return super().number(value) if number is None else -1 - number


class _SharedRequest(Request):
    def __init__(self, file: io.BytesIO, known: Objects, things: Imports) -> None:
        super().__init__(file, known)
        self._imports = things

    def find_class(self, module: str, name: str) -> Any:
        if (module, name) == (imports.__name__, imports.from_tests.__name__):
            return self._imports.stand_in
        return super().find_class(module, name)
