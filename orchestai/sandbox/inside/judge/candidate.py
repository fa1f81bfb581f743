"""The program: loading it, keeping what it prints, and its process where tests are sealed from it.

Frames that process receives: `c`, a pickled dict with `args` and `kwargs` of a call, `next`, a number, and `known`: the
numbers of those arguments that may change. Frames it sends: `l` loaded (1: the entry point is async), `f` failed to
load (status and reason), `a` an answer. That is a dict with `stdout`, `stderr` and one of `value`, `same` (the number
of what came back), `error` and `refused`; with `changed`, what has become of data that crossed before; and perhaps
`keep`: the value gets the number `next`.
"""

from __future__ import annotations

import io
import json
import linecache
import pickle
import socket
import sys
from collections.abc import Callable
from contextlib import suppress
from itertools import islice
from types import CodeType, CoroutineType, GeneratorType, ModuleType
from typing import Any

from ..ipc import exceptions
from ..ipc.arrays import may_change, mirror, state
from ..ipc.exceptions import describe
from ..ipc.values import MOST_ITEMS, NotPlainError, encode, is_plain
from ..ipc.wire import ChannelClosedError, receive_frame, send_frame

MODULE = "__test__"
KEPT = 64
"""Of the data that crossed, how many of the last are looked at again: a program may have kept what it got or gave."""
_CO_COROUTINE = 0x80
_MAX_PRINTED = 1 << 18


class LoadError(Exception):
    """`status` is `syntax_error`, `import_error`, `no_entry_point` or `memory`."""

    def __init__(self, status: str, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


def new_module(name: str = MODULE) -> ModuleType:
    """An empty module, by default under the name that BigCodeBench's own judge uses, with the names that it defines."""
    module = ModuleType(name)
    module.__dict__.update(__file__=f"{name}.py", __package__=None)
    sys.modules[name] = module
    return module


def run_code(code: CodeType, source: str, module: ModuleType, filename: str) -> None:
    """Run `code`, which was compiled from `source`. Raises LoadError, whatever happens short of the process's end."""
    if source:
        linecache.cache[filename] = (len(source), None, source.splitlines(keepends=True), filename)
    try:
        exec(code, module.__dict__)
    except MemoryError as error:
        raise LoadError("memory", describe(error)) from None
    except BaseException as error:
        raise LoadError("import_error", describe(error)) from None


def load_candidate(source: str, entry_point: str, module: ModuleType) -> Callable[..., Any]:
    """Run a candidate and find its entry point in `module`. Raises LoadError."""
    try:
        code = compile(source, "solution.py", "exec", dont_inherit=True)
    except Exception as error:
        diff = any(f"\n{mark}" in f"\n{source}" for mark in ("@@ ", "diff --git ", "*** Begin Patch", "<<<<<<< "))
        raise LoadError("syntax_error", describe(error) + ("; it is a diff, no program" if diff else "")) from None
    run_code(code, source, module, "solution.py")
    if not callable(function := module.__dict__.get(entry_point)):
        raise LoadError("no_entry_point", f"the program defines no function {entry_point}")
    return function


class _Bounded(io.BytesIO):
    """Keeps the first _MAX_PRINTED bytes; says that it is the descriptor that it stands for."""

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self._descriptor = descriptor

    def write(self, data: Any) -> int:
        super().write(bytes(data)[: max(0, _MAX_PRINTED - self.tell())])
        return len(data)

    def fileno(self) -> int:
        return self._descriptor

    def close(self) -> None:
        """A program may close what it prints through; whoever reads it must not fail of that."""


class Captured:
    """Collects what is printed through streams of `sys` (`stdout`, `stderr`), which it takes the place of."""

    def __init__(self, *names: str) -> None:
        self._bytes = _Bounded(1 if "stdout" in names else 2)
        for name in names:
            stream = io.TextIOWrapper(self._bytes, encoding="utf-8", errors="surrogateescape", write_through=True)
            setattr(sys, name, stream)

    def take(self) -> str:
        """What was printed since the last call."""
        if data := self._bytes.getvalue():
            self._bytes.seek(0)
            self._bytes.truncate()
        return data.decode("utf-8", "surrogateescape")


def serve(channel: socket.socket, source: str, entry_point: str, module: ModuleType) -> None:
    """Load the program and answer until the other end goes away."""
    stdout, stderr = Captured("stdout"), Captured("stderr")
    try:
        function: Any = load_candidate(source, entry_point, module)
    except LoadError as error:
        send_frame(channel, b"f", json.dumps([error.status, error.reason]).encode())
        channel.recv(1)
        return
    is_async = getattr(getattr(function, "__code__", None), "co_flags", 0) & _CO_COROUTINE
    send_frame(channel, b"l", b"1" if is_async else b"0")
    stdout.take(), stderr.take()
    known: dict[int, tuple[Any, bytes]] = {}
    with suppress(ChannelClosedError):
        while True:
            answer = _answer(function, known, receive_frame(channel)[1])
            printed = {"stdout": stdout.take(), "stderr": stderr.take()}
            try:
                payload = encode(answer | printed)
            except (Exception, NotPlainError) as error:
                reason = f"the answer cannot leave the candidate's process: {describe(error)}"
                payload = pickle.dumps({"refused": reason, **printed})
            send_frame(channel, b"a", payload)


def _answer(function: Callable[..., Any], known: dict[int, tuple[Any, bytes]], payload: bytes) -> dict[str, Any]:
    """Call the entry point, and tell what became of the data that crossed.

    Args:
        known: that data, by number, and how each was when it crossed.
    """
    try:
        request = pickle.loads(payload)
    except Exception as error:
        return {"refused": f"the arguments cannot enter the candidate's process: {describe(error)}"}
    args, kwargs = list(request["args"]), request["kwargs"]
    for place, number in request["known"].items():
        given: Any = args if type(place) is int else kwargs
        value, met = given[place], known.get(number, (None, b""))[0]
        if type(met) is type(value):  # what the program knows it as, with the content that it has now
            mirror(met, value)
            given[place] = value = met
        known[number] = value, state(value)
    answer: dict[str, Any] = {}
    try:
        value = function(*args, **kwargs)
        if isinstance(value, CoroutineType):
            import asyncio  # heavy, and seldom needed

            value = asyncio.run(value)
        if isinstance(value, GeneratorType):  # what it raises is told as such
            value = iter(list(islice(value, MOST_ITEMS + 1)))
        same = next((number for number, (met, _) in known.items() if met is value), None)
        answer |= {"value": value} if same is None else {"same": same}
    except BaseException as error:
        answer["error"] = exceptions.take_apart(error, is_plain)
    changed = {number: (met, now) for number, (met, before) in known.items() if (now := state(met)) != before}
    known |= changed
    answer["changed"] = {number: met for number, (met, _) in changed.items()}
    if "value" in answer and may_change(answer["value"]):
        known[request["next"]] = answer["value"], state(answer["value"])
        answer["keep"] = True
    for number in [number for number in known if number <= request["next"] - KEPT]:
        del known[number]
    return answer
