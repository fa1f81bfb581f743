"""The fork server: preloads modules once, then keeps one slot per channel; a slot judges one program at a time."""

from __future__ import annotations

import gc
import importlib
import os
import signal
import socket
import time
from typing import Any, NoReturn

from . import census
from .attempt import AbandonedError, Attempt, Job
from .cage import Cage, die_with_parent, hide_memory
from .testing import MEMORY_FAULTS
from .wire import ChannelClosedError, LineReader, send_line

_MAX_STARTS = 100
_OFTEN_IMPORTED = (
    *("bisect", "collections", "copy", "datetime", "functools", "heapq", "itertools", "json", "math", "operator"),
    *("random", "re", "statistics", "string", "textwrap", "typing", "unittest"),
)


def main(settings: dict[str, Any]) -> int:
    """Run until every channel is closed.

    `settings`: `channels` (descriptors), `preload` (modules), `level`, `home` (where programs get their folders).
    """
    channels = [socket.socket(fileno=descriptor) for descriptor in settings["channels"]]
    try:
        for name in settings["preload"]:
            importlib.import_module(name)
    except Exception as error:
        for channel in channels:
            send_line(channel, {"failed": f"cannot preload {name}: {error}"})
        return 1
    for name in _OFTEN_IMPORTED:
        importlib.import_module(name)
    hide_memory()
    gc.collect()
    gc.freeze()
    slots = {_start_slot(channels, i, settings): i for i in range(len(channels))}
    starts = len(slots)
    while slots:
        pid, status = os.wait()
        index = slots.pop(pid, None)
        if index is not None and status != 0 and starts < _MAX_STARTS * len(channels):
            slots[_start_slot(channels, index, settings)] = index
            starts += 1
    return 0


def _start_slot(channels: list[socket.socket], index: int, settings: dict[str, Any]) -> int:
    parent = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    _slot(channels, index, settings, parent)


def _slot(channels: list[socket.socket], index: int, settings: dict[str, Any], parent: int) -> NoReturn:
    code = 1
    try:
        for i, channel in enumerate(channels):
            if i != index:
                channel.close()
        die_with_parent(parent)
        census.become_reaper()
        try:
            cage = _open_cage(settings, index)
        except OSError as error:
            send_line(channels[index], {"unable": f"no cage for programs: {error}"})
        else:
            _serve(channels[index], cage)
        code = 0
    finally:
        os._exit(code)


def _open_cage(settings: dict[str, Any], index: int) -> Cage:
    if settings["level"] == "process":
        return Cage(settings["home"])
    from .namespaces import NamespaceCage

    return NamespaceCage(settings["home"], index, len(settings["channels"]))


def _serve(channel: socket.socket, cage: Cage) -> None:
    """Judge the programs that arrive on `channel`, one after the other, until it is closed."""
    wake = _wake_on_child()
    orders = LineReader(channel)
    send_line(channel, {"ready": os.getpid()})
    while True:
        try:
            order, files = orders.read()
            code, tests = files
            try:
                verdict = _judge(Job(code=code, tests=tests, **order["job"]), wake, channel, cage)
            except (OSError, MemoryError, RuntimeError) as error:
                verdict = {"status": "infra_error", "reason": f"{type(error).__name__}: {error}"}
            finally:
                os.close(code)
                os.close(tests)
            send_line(channel, {"id": order["id"], **verdict})
        except (ChannelClosedError, AbandonedError, BrokenPipeError):
            return


def _wake_on_child() -> int:
    """A descriptor that becomes readable when a child of this process ends."""
    read, write = os.pipe()
    os.set_blocking(read, False)
    os.set_blocking(write, False)
    signal.signal(signal.SIGCHLD, lambda number, frame: None)
    signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    return read


def _judge(job: Job, wake: int, channel: socket.socket, cage: Cage) -> dict[str, Any]:
    """Verdicts of all tests; a test that ends or hangs its process costs itself, the rest run in a fresh attempt."""
    begin = time.monotonic()
    deadline = begin + job.limits["wall_s"]
    verdicts: dict[int, tuple[str, str]] = {}
    status, reason = "ok", ""
    while todo := [test for test in range(job.total) if test not in verdicts]:
        cage.open()
        attempt = Attempt(job, todo, cage)
        try:
            ending = attempt.watch(deadline, wake, channel)
        finally:
            attempt.close()
        verdicts.update(attempt.verdicts)
        if ending.kind == "done":
            verdicts.update((test, ("error", "no verdict was given")) for test in todo if test not in verdicts)
            continue
        if status == "ok":
            status, reason = ending.kind, ending.reason
        if ending.test is not None:
            verdicts.setdefault(ending.test, (ending.kind, ending.reason))
        exhausted = sum(outcome == "memory" for outcome, _ in verdicts.values()) >= MEMORY_FAULTS
        if ending.test is None or exhausted or time.monotonic() >= deadline:
            verdicts.update((test, ("not_run", ending.reason)) for test in todo if test not in verdicts)
    tests = [verdicts[test] for test in range(job.total)]
    if status == "ok" and any(outcome == "memory" for outcome, _ in tests):
        status = "memory"
    return {"status": status, "reason": reason, "tests": tests, "wall_s": time.monotonic() - begin}
