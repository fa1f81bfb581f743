"""One attempt at the tests that have no verdict yet: processes forked beforehand, watched until done or at fault."""

from __future__ import annotations

import os
import select
import signal
import socket
import time
from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple

from ..ipc.wire import ChannelClosedError, LineReader, VerdictReader, open_verdict_pipe, send_line
from ..jail import processes
from ..jail.limits import Jail
from ..jail.processes import Usage
from ..jail.shares import Shares
from . import process_main
from .sealed import CANDIDATE_GONE, LOAD_FAULTS

_FIRST_COUNT_S, _COUNT_EVERY_S = 0.02, 0.1
"""Programs that fill memory as fast as they can end within three tenths of a second, and come again."""
_MAPS, _MAPS_EACH, _MOST_MAPS = 1 << 14, 1536, 1 << 17
"""Memory maps of a program, more for each of its processes (they have those of loaded libraries), and at most of all.
Each takes memory of the kernel that nothing counts, and time to look at and to take down."""
_TO_END_S = 1.0
_NEGLIGIBLE_S = 0.02
_OUTCOMES = ("passed", "failed", "error", "skipped", "memory", "not_run")


class AbandonedError(Exception):
    """Whoever ordered the job is gone."""


class Job(NamedTuple):
    """What a slot knows of a program: descriptors of its files (it never reads them), and how to run it.

    `report` is where the tests' process writes what the slot must not know; see `VerdictWriter`. `self_contained`
    tests (`orchestai.sandbox.static.modes`) need no process of their own; see `TestProcess`.
    """

    code: int
    tests: int
    report: int
    total: int
    entry_point: str
    isolation: str
    self_contained: bool


class Ending(NamedTuple):
    """How an attempt ended: `done`, `unloadable` with a status, or a fault that `timeout`, `died` or `memory` names.

    `lost`: a process of it was killed by somebody else than the program or the sandbox. `test` is the number of the
    test at fault, None if nothing had been loaded yet.
    """

    kind: str
    reason: str = ""
    test: int | None = None


class TestProcess:
    """T, the process of a slot that runs the tests: forked and confined before there are any, and kept for the next
    program where it is as good as new.

    Self-contained tests change nothing that outlasts them, and look at nothing that those before them could have
    changed. So one process runs the tests of many such programs, one after the other. All other tests get a process
    that has run none, and it ends with them.

    Attributes:
        pid: of the process; None while there is none.
        is_new: it has run no tests.
        busy: it runs some, and has neither said that it is done with them nor closed its end.
        waits: it can be given others.
        peak_bytes: after `hear`, the most memory that it has held beyond what it was forked with.
    """

    def __init__(self, jail: Jail) -> None:
        self._jail = jail
        self.peak_bytes = 0
        self.pid: int | None = None
        self._orders: Any = None
        self.forget()

    def fileno(self) -> int:
        """Becomes readable when it is done, or ends."""
        return int(self._orders.fileno())

    def be_ready(self) -> int:
        """See that there is a process; its id. Raises OSError where there are no resources for another."""
        self.peak_bytes = 0
        if self.pid is None:
            self._orders, theirs = socket.socketpair()
            with theirs:
                self.pid = self._jail.fork(partial(process_main.tests, theirs), (theirs.fileno(),), trusted=True)
            self.waits = True
        return self.pid

    def give(self, order: dict[str, Any], files: Sequence[int]) -> None:
        self.busy, self.is_new, self.waits = True, False, False
        send_line(self._orders, order, files)

    def hear(self) -> None:
        """Take in that it is done, or that it ends."""
        self.busy = False
        with suppress(ChannelClosedError):
            self.peak_bytes = LineReader(self._orders).read()[0]["peak_bytes"]
            self.waits = True

    def end(self) -> None:
        """Raises RuntimeError if it cannot be ended."""
        if self.pid is not None:
            self._jail.end([self.pid])
        self.forget()

    def forget(self) -> None:
        """It has ended."""
        if self._orders is not None:
            self._orders.close()
        self.pid = self._orders = None
        self.busy, self.is_new, self.waits = False, True, False


class Attempt:
    """The processes of one attempt: C, which runs the candidate, and T, which runs the tests.

    They are forked and confined before there is a program, which hides half of what an attempt takes, and wait for
    orders. Where tests are judged open, C runs them too, and T goes on waiting.

    Args:
        tests: T; it is left to the next attempt where it can be kept.

    Attributes:
        verdicts: by test number, what the test's process said of it.
        waited_s: after `watch`, for how long a busy machine kept it waiting; that does not count against the deadline.
        cpu_s, peak_bytes: after `close`, CPU time of all processes, and the most memory that one of them held.
    """

    def __init__(self, jail: Jail, limits: dict[str, Any], tests: TestProcess) -> None:
        self.verdicts: dict[int, dict[str, Any]] = {}
        self.waited_s = self.cpu_s = 0.0
        self.peak_bytes = 0
        self._jail = jail
        self._limits = limits
        self._tests = tests
        self._loaded = False
        self._missing = False
        self._current: int | None = None
        self._ending: Ending | None = None
        self._ended: dict[int, Usage] = {}
        self._endings: list[int] = []
        self._reader: VerdictReader | None = None
        if jail.open(0 if tests.pid is None else 2):  # T belongs to the disk and the network that it was forked in
            tests.end()
        self._inherited = processes.resident_bytes()
        self._prepared_s = 0.0
        self._shares = Shares([])
        self._pids: list[int] = []
        self._orders, c_side = socket.socketpair()
        self._channel, theirs = socket.socketpair()
        with c_side, theirs:
            try:
                candidate = partial(process_main.candidate, c_side, theirs)
                self._pids.append(jail.fork(candidate, (c_side.fileno(), theirs.fileno())))
                self._pids.append(tests.be_ready())
            except BaseException:
                self.close()
                raise

    def start(self, job: Job, todo: list[int]) -> None:
        """Give the processes their orders: the program, and the numbers of the tests to run."""
        self._job = job
        self._todo = todo
        in_one = job.isolation == "open"
        keeps = job.self_contained and self._jail.keeps_tests and not in_one
        if not in_one and not keeps and not self._tests.is_new:
            self._jail.check()
            self._tests.end()
            self._pids[1] = self._tests.be_ready()
        self._prepared_s = sum(map(processes.cpu_s, self._pids))
        facts = {"entry_point": job.entry_point, "isolation": job.isolation}
        if not in_one:
            send_line(self._orders, facts, (job.code,))  # at once: T has to wait for it
        nonce = os.urandom(16).hex()  # made now, so that the candidate's memory does not hold it
        read, write = open_verdict_pipe()
        self._reader = VerdictReader(read, nonce, len(todo))
        order = facts | {"todo": todo, "nonce": nonce}
        try:
            if in_one:
                send_line(self._orders, order, (job.code, job.tests, write, job.report))
            else:
                self._tests.give(order | {"stay": keeps}, (self._channel.fileno(), job.tests, write, job.report))
                self._channel.close()
        finally:
            os.close(write)
        self._jail.hold(self._pids[0])
        self._before = processes.schedule(self._pids)
        self._shares = Shares(self._pids, spared=self._pids[1] if keeps or in_one else None)
        if hasattr(os, "pidfd_open"):
            self._endings += map(os.pidfd_open, self._pids)

    def watch(self, deadline: float, latest: float, orderer: socket.socket) -> Ending:
        """Wait for the end, at the latest until `deadline` (monotonic seconds).

        The process that runs the tests says so when it is done, or ends. Until then its events are looked at only now
        and then: to wake for each of them would take longer than most tests.

        Time for which the processes were ready to run but had no core does not count, until `latest`: on a busy machine
        the program is not to blame for it.

        `orderer` becomes readable when whoever waits for the verdict is gone.
        """
        assert self._reader is not None
        limits = self._limits
        stage = min(deadline, time.monotonic() + limits["load_s"])
        next_count = time.monotonic() + _FIRST_COUNT_S
        fate, cause_known_at = "", 0.0
        while True:
            pause = max(0.0, min(stage, next_count) - time.monotonic())
            signs: list[Any] = [self._tests, orderer] if self._tests.busy else [orderer]
            ends = zip(self._endings or [self._reader.descriptor], self._pids, strict=False)
            signs += [end for end, pid in ends if not self._endings or pid not in self._ended]
            ready, _, _ = select.select(signs, [], [], pause)
            if self._tests in ready:
                self._tests.hear()
            if orderer in ready and not orderer.recv(1, socket.MSG_PEEK):
                raise AbandonedError
            if (ended := self.fate()) and not fate:
                fate, cause_known_at = ended, time.monotonic() + _TO_END_S
            for event in (events := self._reader.read()):
                self._take(event)
            if events:  # a stage (loading, a test) began or ended
                stage = min(deadline, time.monotonic() + limits["test_s"])
            waits = self._tests.busy and self._tests.pid not in self._ended and time.monotonic() < deadline
            if self._ending and not (self._ending.kind == "done" and waits):  # T is about to say that it has no more
                return self._ending
            if self._ending is None and len(self.verdicts) == len(self._todo):
                return Ending("done")
            now = time.monotonic()
            if fate and not self._ending and not (self._may_be_left_alone() and now < cause_known_at):
                killed = any(one.exit_code == -signal.SIGKILL for one in self._ended.values())
                if killed and self._jail.in_namespaces:  # from outside of its namespace; or for its CPU time
                    return self._fault("died", fate)._replace(kind="lost")
                self._jail.check()
                return self._fault("died", fate)
            if now >= stage:
                schedule = processes.schedule(processes.descendants(os.getpid()))
                more = processes.waited_s(self._pids, self._before, schedule)
                if more > _NEGLIGIBLE_S:
                    stage, deadline, self._before = stage + more, min(latest, deadline + more), schedule
                    self.waited_s += more
            if now >= deadline:
                return self._fault("timeout", f"the program took more than {limits['wall_s']:g} s")
            if now >= stage:
                seconds = limits["test_s"] if self._loaded else limits["load_s"]
                return self._fault("timeout", f"took more than {seconds:g} s")
            if now >= next_count:
                next_count = now + _COUNT_EVERY_S
                living = processes.descendants(os.getpid())
                self._shares.balance(living)
                if excess := self._excess(living):
                    return self._fault(*excess)

    def close(self) -> bool:
        """End every process of the attempt, but for T where it can be kept; whether all have ended.

        What the kernel takes long to take down has been killed, and is not waited for: a program that lost would be
        judged anew for it.
        """
        self._orders.close()
        self._channel.close()
        self._shares.close()
        for descriptor in self._endings:
            os.close(descriptor)
        if self._reader is not None:
            os.close(self._reader.descriptor)
        tests = self._tests
        leaving = [pid for pid in self._pids if pid not in self._ended]
        if tests.pid in leaving and self._jail.keeps_tests and tests.waits:
            leaving.remove(tests.pid)
        elif tests.pid is not None:
            tests.forget()
        try:
            self._ended |= self._jail.end(leaving)
        except RuntimeError:
            return False
        used = self._ended.values()
        kept_s = processes.cpu_s(tests.pid) if tests.pid is not None else 0.0
        self.cpu_s = max(0.0, sum(one.cpu_s for one in used) + kept_s - self._prepared_s)
        self.peak_bytes = max(tests.peak_bytes, *(one.peak_bytes - self._inherited for one in used), 0)
        return True

    def fate(self) -> str:
        """How our processes that have ended did so; empty if all live. Reaps orphans on the way."""
        ended, _ = processes.reap()
        ours = {pid: usage for pid, usage in ended.items() if pid in self._pids}
        self._ended |= ours
        said = {CANDIDATE_GONE: "the candidate's process ended"}
        for code in [one.exit_code for one in ours.values()]:
            by_signal = f"killed by signal {-code} ({signal.strsignal(-code)})" if code < 0 else ""
            said.setdefault(code, by_signal or f"ended with exit code {code}")
        return ", ".join(said[one.exit_code] for one in ours.values())

    def _may_be_left_alone(self) -> bool:
        """Whether the process that has ended may have done so because the other one was killed.

        Of one that is killed, the kernel closes the sockets before it ends the children, and only then says that it has
        ended; meanwhile the other finds itself alone, ends, and is the first to have done so. A program can seem to be
        killed so, and is watched until the other ends.
        """
        return (
            self._jail.in_namespaces
            and self._job.isolation != "open"
            and len(self._ended) < len(self._pids)
            and {one.exit_code for one in self._ended.values()} <= {0, CANDIDATE_GONE}
        )

    def _excess(self, living: list[int]) -> tuple[str, str] | None:
        """The fault of having too many processes, or of all of them holding too much memory."""
        limits = self._limits
        if not self._jail.in_namespaces and len(living) > limits["processes"] + len(self._pids):
            return "died", f"more than {limits['processes']} processes"
        most_maps = min(_MAPS + _MAPS_EACH * len(living), _MOST_MAPS)
        if processes.maps(living, most_maps) > most_maps:
            return "memory", f"its {len(living)} processes together held more than {most_maps} memory maps"
        most = int(1.5 * limits["memory_mb"] * (1 << 20)) - self._jail.kernel_bytes()
        if processes.held_bytes(living, most) > most:
            return "memory", f"its processes together held more than {1.5 * limits['memory_mb']:g} MB"
        return None

    def _take(self, event: dict[str, Any]) -> None:
        kind, test = event.get("event"), event.get("test")
        if kind == "loaded":
            self._loaded = True
        elif kind == "missing" and not self._loaded:
            self._missing = True
        elif kind == "unloadable":  # where a program meets its tests, it might say `broken` itself
            status, is_open = event.get("status"), self._job.isolation == "open"
            may_be = LOAD_FAULTS if is_open and not self._missing else (*LOAD_FAULTS, "broken")
            if (is_open and status == "tampered") or (not self._loaded and status in may_be):
                self._ending = Ending(str(status))
        elif kind == "start" and test in self._todo:
            self._current = test
        elif kind == "end" and test in self._todo and event.get("outcome") in _OUTCOMES:
            self.verdicts.setdefault(test, {"outcome": event["outcome"]})
            self._current = None
        elif kind == "done":
            self._ending = self._ending or Ending("done")

    def _fault(self, kind: str, reason: str) -> Ending:
        """A fault of the test that runs, or of the next one when none does (a class fixture, a thread)."""
        if not self._loaded:
            return Ending(kind, f"while loading: {reason}")
        unfinished = (test for test in self._todo if test not in self.verdicts)
        test = self._current if self._current is not None else next(unfinished, None)
        return Ending(kind, reason, test)
