"""The fork server: preloads modules once, then keeps one slot per channel, which judges programs one by one."""

from __future__ import annotations

import gc
import importlib
import os
import socket
import sys
import time
from contextlib import suppress
from typing import Any, NoReturn

from . import MOST_WALLS
from .ipc.wire import ChannelClosedError, LineReader, send_line
from .jail.limits import Jail, die_with_parent
from .judge.attempt import AbandonedError, Attempt, Ending, Job, TestProcess
from .judge.process_main import rehearse
from .judge.testing import MEMORY_FAULTS
from .judge.watch import remember
from .warm_up import warm_up

_MAX_STARTS = 100
_MOST_LOSSES = 3
"""Attempts of a program that are made again because a process was killed from outside; then it may be to blame."""
_REHEARSALS = 20
"""After as many runs the interpreter has fitted a candidate's code to its types: a fork would do that for itself."""
_OFTEN_IMPORTED = (
    *("bisect", "collections", "copy", "datetime", "functools", "heapq", "itertools", "json", "math", "operator"),
    *("random", "re", "statistics", "string", "textwrap", "typing", "unittest"),
)


def main(settings: dict[str, Any]) -> int:
    """Run until every channel is closed.

    `settings`: `channels` (descriptors), `preload` (modules), `level`, `limits`, `home` (where programs get their
    folders), `first_uid` (user of the first slot's programs, where this process is root; the next slot has the next).
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
    warm_up()
    for _ in range(_REHEARSALS):
        rehearse()
    remember()
    gc.collect()
    gc.freeze()
    if sys.platform == "linux":  # none without CAP_SYS_PTRACE is to trace this process or its forks
        from .jail.system import PR_SET_DUMPABLE, prctl

        prctl(PR_SET_DUMPABLE, 0)  # last: it keeps this process from its own files in /proc, where it is not root
    slots = {_start_slot(channels, i, settings): i for i in range(len(channels))}
    starts = len(slots)
    while slots:
        pid, status = os.wait()
        index = slots.pop(pid, None)
        if index is not None and status != 0:
            if starts >= _MAX_STARTS * len(channels):
                return 1
            slots[_start_slot(channels, index, settings)] = index
            starts += 1
    return 0


def _start_slot(channels: list[socket.socket], index: int, settings: dict[str, Any]) -> int:
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        _run_slot(channels, index, settings, parent)
    return pid


def _run_slot(channels: list[socket.socket], index: int, settings: dict[str, Any], parent: int) -> NoReturn:
    code = 1
    try:
        own = channels.pop(index)
        for channel in channels:
            channel.close()
        channel = own.dup()  # gets a number below the limit on descriptors, wherever the parent's began
        own.close()
        die_with_parent(parent)
        home, limits = settings["home"], settings["limits"]
        try:
            jail: Jail
            if settings["level"] == "process":
                jail = Jail(home, limits)
            else:
                from .jail.namespaces import NamespaceJail

                uid = settings["first_uid"] + index if os.getuid() == 0 else None
                jail = NamespaceJail(home, limits, uid, len(channels) + 1)
            slot = Slot(channel, jail, limits)
        except OSError as error:
            send_line(channel, {"unable": f"no jail for programs: {error}"})
        else:
            slot.serve()
        code = 0
    finally:
        os._exit(code)


class Slot:
    """Has the processes for the next program ready before it arrives.

    Args:
        limits: see `orchestai.sandbox.Limits`.
    """

    def __init__(self, channel: socket.socket, jail: Jail, limits: dict[str, Any]) -> None:
        self._channel = channel
        self._jail = jail
        self._limits = limits
        self._stuck = False
        self._tests = TestProcess(jail)
        self._ready: Attempt | None = Attempt(jail, limits, self._tests)

    def serve(self) -> None:
        """Judge programs until the channel is closed."""
        orders = LineReader(self._channel)
        send_line(self._channel, {"ready": os.getpid()})
        while True:
            try:
                order, files = orders.read()
                code, tests, report = files
                try:
                    verdict = self._judge(Job(code=code, tests=tests, report=report, **order["job"]))
                except (OSError, MemoryError, RuntimeError) as error:
                    verdict = {"status": "infra_error", "reason": f"{type(error).__name__}: {error}"}
                finally:
                    for file in files:
                        os.close(file)
                send_line(self._channel, {"id": order["id"], **verdict})
                if self._stuck:
                    os._exit(1)  # another takes its place, which has none of the program
            except (ChannelClosedError, AbandonedError, BrokenPipeError):
                return
            with suppress(OSError, RuntimeError):  # what stands in the way now is said if it still does then
                self._ready = Attempt(self._jail, self._limits, self._tests)

    def _judge(self, job: Job) -> dict[str, Any]:
        """Verdicts of all tests; a test that ends or hangs its process costs itself, the rest run in a new attempt."""
        begin = time.monotonic()
        wall_s = self._limits["wall_s"]
        deadline, latest = begin + wall_s, begin + MOST_WALLS * wall_s
        verdicts: dict[int, dict[str, Any]] = {}
        cpu_s, peak_bytes, losses = 0.0, 0, 0
        status, reason = "ok", ""
        while todo := [test for test in range(job.total) if test not in verdicts]:
            attempt, self._ready = self._ready, None
            if attempt is not None and attempt.fate():  # a system without memory may have ended them
                attempt.close()
                attempt = None
            attempt = attempt or Attempt(self._jail, self._limits, self._tests)
            try:
                attempt.start(job, todo)
                ending = attempt.watch(deadline, latest, self._channel)
            except (OSError, RuntimeError) as error:  # one of its processes ended before it was told anything
                if losses >= _MOST_LOSSES:
                    raise
                ending = Ending("lost", str(error))
            finally:
                self._stuck = not attempt.close()
            deadline = min(latest, deadline + attempt.waited_s)
            cpu_s, peak_bytes = cpu_s + attempt.cpu_s, max(peak_bytes, attempt.peak_bytes)
            verdicts |= attempt.verdicts
            if ending.kind == "lost":
                if losses < _MOST_LOSSES and time.monotonic() < deadline and not self._stuck:
                    losses += 1
                    continue
                ending = ending._replace(kind="died")
            if ending.kind == "done":
                missing = {"outcome": "error", "message": "no verdict was given"}
                verdicts |= {test: missing for test in todo if test not in verdicts}
                continue
            if status == "ok":
                status, reason = ending.kind, ending.reason
            if ending.test is not None:
                verdicts.setdefault(ending.test, {"outcome": ending.kind, "message": ending.reason})
            exhausted = sum(verdict["outcome"] == "memory" for verdict in verdicts.values()) >= MEMORY_FAULTS
            if self._stuck or ending.test is None or exhausted or time.monotonic() >= deadline:
                not_run = {"outcome": "not_run", "message": ending.reason}
                verdicts |= {test: not_run for test in todo if test not in verdicts}
            if ending.kind == "tampered":
                forged = {"outcome": "failed", "message": "the program tampers with its tests"}
                verdicts = {test: forged if one["outcome"] == "passed" else one for test, one in verdicts.items()}
        tests = [verdicts[test] for test in range(job.total)]
        if status == "ok" and any(verdict["outcome"] == "memory" for verdict in tests):
            status = "memory"
        figures = {"wall_s": time.monotonic() - begin, "cpu_s": cpu_s, "peak_mb": peak_bytes / (1 << 20)}
        return {"status": status, "reason": reason, "tests": tests, **figures}
