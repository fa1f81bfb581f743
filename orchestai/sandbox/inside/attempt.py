"""One attempt at the tests that have no verdict yet: forked processes, watched until they are done or at fault."""

from __future__ import annotations

import os
import select
import signal
import socket
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from . import census, roles
from .cage import Cage
from .proxy import CANDIDATE_GONE
from .wire import VerdictReader, VerdictWriter

_CENSUS_EVERY_S = 0.1
_NEGLIGIBLE_S = 0.02
_UNLOADABLE = {
    "split": ("syntax_error", "import_error", "no_entry_point", "memory", "broken"),
    "shared": ("syntax_error", "import_error", "no_entry_point", "memory"),  # the program could say `broken` itself
}
_OUTCOMES = ("passed", "failed", "error", "skipped", "memory", "not_run")


class AbandonedError(Exception):
    """Whoever ordered the job is gone."""


@dataclass(frozen=True)
class Job:
    """What a slot knows of a program: descriptors of its files (it never reads them), and how to run it."""

    code: int
    tests: int
    total: int
    entry_point: str
    isolation: str
    limits: dict[str, Any]


@dataclass(frozen=True)
class Ending:
    """How an attempt ended: `done`, `unloadable` with a status, or a fault that `timeout`, `died` or `memory` names.

    `test` is the number of the test at fault, None if nothing had been loaded yet.
    """

    kind: str
    reason: str = ""
    test: int | None = None


class Attempt:
    """Processes of one attempt. `verdicts` collects (outcome, message) by test number."""

    def __init__(self, job: Job, todo: list[int], cage: Cage) -> None:
        self.job = job
        self.todo = todo
        self.verdicts: dict[int, tuple[str, str]] = {}
        self._cage = cage
        self._loaded = False
        self._current: int | None = None
        self._ending: Ending | None = None
        read, write = os.pipe()
        try:
            self.pids = self._fork_split(write) if job.isolation == "split" else self._fork_shared(write)
        except BaseException:
            os.close(read)
            raise
        finally:
            os.close(write)
        self._reader = VerdictReader(read, self._nonce)

    def _fork_split(self, write: int) -> list[int]:
        job = self.job
        ours, theirs = socket.socketpair()

        def candidate() -> None:
            roles.candidate_of_split(theirs, job.code, job.entry_point)

        def tests() -> None:
            out = VerdictWriter(write, self._nonce)
            roles.tests_of_split(ours, job.tests, job.entry_point, self.todo, out)

        with ours, theirs:
            first = self._cage.fork(candidate, (theirs.fileno(), job.code), job.limits)
            self._nonce = os.urandom(16).hex()  # made now, so that the candidate's memory does not hold it
            return [first, self._cage.fork(tests, (ours.fileno(), job.tests, write), job.limits, trusted=True)]

    def _fork_shared(self, write: int) -> list[int]:
        job = self.job
        self._nonce = os.urandom(16).hex()

        def both() -> None:
            roles.shared(job.code, job.tests, job.entry_point, self.todo, VerdictWriter(write, self._nonce))

        return [self._cage.fork(both, (job.code, job.tests, write), job.limits)]

    def watch(self, deadline: float, wake: int, orderer: socket.socket) -> Ending:
        """Wait for the end, at the latest until `deadline` (monotonic seconds).

        Time for which the processes were ready to run but had no core does not count, up to as much again: on a busy
        machine the program is not to blame for it.

        `wake` becomes readable when a child ends; `orderer` when whoever waits for the verdict is gone.
        """
        limits = self.job.limits
        stage = min(deadline, time.monotonic() + limits["load_s"])
        next_census = time.monotonic() + _CENSUS_EVERY_S
        lost = 0.0
        watched = [self._reader.descriptor, wake, orderer.fileno()]
        while True:
            pause = max(0.0, min(stage, next_census) - time.monotonic())
            ready, _, _ = select.select(watched, [], [], pause)
            if orderer.fileno() in ready and not orderer.recv(1, socket.MSG_PEEK):
                raise AbandonedError
            fate = _fate(self.pids) if wake in ready and os.read(wake, 4096) else ""
            if self._take_events():
                stage = min(deadline, time.monotonic() + limits["test_s"])
            if self._ending or len(self.verdicts) == len(self.todo):
                return self._ending or Ending("done")
            if fate:
                self._cage.check()
                return self._fault("died", fate)
            now = time.monotonic()
            if now >= stage and (more := min(census.waited_s(self.pids), limits["wall_s"]) - lost) > _NEGLIGIBLE_S:
                lost, stage, deadline = lost + more, stage + more, deadline + more
            if now >= deadline:
                return self._fault("timeout", f"the program took more than {limits['wall_s']:g} s")
            if now >= stage:
                seconds = limits["test_s"] if self._loaded else limits["load_s"]
                return self._fault("timeout", f"took more than {seconds:g} s")
            if now >= next_census:
                next_census = now + _CENSUS_EVERY_S
                if excess := self._excess():
                    return self._fault(*excess)

    def close(self) -> None:
        """End every process of the attempt."""
        os.close(self._reader.descriptor)
        self._cage.close(self.pids)

    def _excess(self) -> tuple[str, str] | None:
        """The fault of having too many processes, or of all of them holding too much memory."""
        limits = self.job.limits
        living = census.descendants(os.getpid())
        if not self._cage.counts_processes and len(living) > limits["processes"] + len(self.pids):
            return "died", f"more than {limits['processes']} processes"
        if census.own_bytes(living) > 1.5 * limits["memory_mb"] * (1 << 20):
            return "memory", f"its processes together held more than {1.5 * limits['memory_mb']:g} MB"
        return None

    def _take_events(self) -> bool:
        """Take in what has arrived; True if a stage (loading, a test) began or ended."""
        events = self._reader.read()
        for event in events:
            self._take(event)
        return bool(events)

    def _take(self, event: dict[str, Any]) -> None:
        kind, test = event.get("event"), event.get("test")
        if kind == "loaded":
            self._loaded = True
        elif kind == "unloadable" and not self._loaded and event.get("status") in _UNLOADABLE[self.job.isolation]:
            self._ending = Ending(event["status"], str(event.get("reason", "")))
        elif kind == "start" and test in self.todo:
            self._current = test
        elif kind == "end" and test in self.todo and event.get("outcome") in _OUTCOMES:
            self.verdicts.setdefault(test, (event["outcome"], str(event.get("message", ""))))
            self._current = None
        elif kind == "done":
            self._ending = Ending("done")

    def _fault(self, kind: str, reason: str) -> Ending:
        """A fault of the test that runs, or of the next one when none does (a class fixture, a thread)."""
        if not self._loaded:
            return Ending(kind, f"while loading: {reason}")
        unfinished = (test for test in self.todo if test not in self.verdicts)
        test = self._current if self._current is not None else next(unfinished, None)
        return Ending(kind, reason, test)


def _fate(pids: list[int]) -> str:
    """How our processes that have ended did so; empty if all live. Reaps orphans on the way."""
    fates = []
    with suppress(ChildProcessError):
        while (child := os.waitpid(-1, os.WNOHANG))[0]:
            if child[0] in pids:
                fates.append(_exit_reason(os.waitstatus_to_exitcode(child[1])))
    return ", ".join(fates)


def _exit_reason(code: int) -> str:
    if code == CANDIDATE_GONE:
        return "the candidate's process ended"
    return f"ended with exit code {code}" if code >= 0 else f"killed by signal {-code} ({signal.strsignal(-code)})"
