"""The sandbox: runs untrusted programs against their unit tests, some at a time, and reports."""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from importlib.util import find_spec
from queue import SimpleQueue
from types import TracebackType
from typing import TYPE_CHECKING

from orchestai.config import SandboxConfig
from orchestai.sandbox.program import Limits, Program, Report

if TYPE_CHECKING:
    from orchestai.sandbox.levels import Level, Strictness
    from orchestai.sandbox.local_judge import Judge
    from orchestai.sandbox.packages import Packages


class _GivenUpError(Exception):
    """Whoever judged a program was interrupted; whoever waited with it is to do it."""


def _local(
    workers: int, limits: Limits, preload: Sequence[str], strictness: Strictness, packages: Sequence[str]
) -> Judge:
    from orchestai.sandbox.local_judge import LocalJudge

    return LocalJudge(workers, limits, preload, strictness, packages)


class Sandbox:
    """Judges programs in forked processes. Safe to use from many threads and tasks.

    Args:
        workers: programs that run at a time; further ones wait.
        limits: what one program may use.
        preload: modules that programs often import, the lighter first; they are imported once. See `ServerPool`.
        packages: further modules that programs may import, beside the standard library, what suites name, `preload` and
            what all these need. Nothing else that is installed exists for them; without namespaces everything does.
        cache_size: verdicts kept in memory; a program that was judged before is not run again, unless its report is one
            that a busy machine may have caused (see `Report.repeatable`).
        strictness: `strict`: programs are isolated by namespaces, or there is no sandbox. `auto`: by namespaces where
            the system allows it, else by limits alone, with a warning. `process`: by limits alone, for trusted code.
        judge: who judges; by default this machine, as the arguments before say.
        when_needed: whether that is set up when the first program comes, or its level is asked for, and not before.

    Attributes:
        workers: as given.

    Raises:
        UserError: the system cannot isolate programs as `strict` demands, or a module of `preload` or `packages` is not
            installed, or holds the answers of a suite.
    """

    def __init__(
        self,
        workers: int = 2,
        limits: Limits | None = None,
        preload: Sequence[str] = (),
        cache_size: int = 1 << 15,
        strictness: Strictness = "auto",
        packages: Sequence[str] = (),
        judge: Judge | None = None,
        when_needed: bool = False,
    ) -> None:
        self._make: Callable[[], Judge] = partial(_local, workers, limits or Limits(), preload, strictness, packages)
        self._when_needed = when_needed
        self._making = threading.Lock()
        self._made = judge if judge or when_needed else self._make()
        self._cache_size = cache_size
        self._cache: OrderedDict[Program, Future[Report]] = OrderedDict()
        self._lock = threading.Lock()
        self._closed = False
        self.workers = workers
        self._running: set[Future[Report]] = set()
        self._waiting: dict[Future[Report], SimpleQueue[None]] = {}
        self._threads = ThreadPoolExecutor(workers, thread_name_prefix="sandbox")

    @classmethod
    def from_config(cls, config: SandboxConfig, *, when_needed: bool = False) -> Sandbox:
        limits = Limits(
            wall_s=config.wall_s, test_s=config.test_s, memory_mb=config.memory_mb, processes=config.processes
        )
        return cls(
            config.workers,
            limits,
            config.preload,
            strictness=config.level,
            packages=config.packages,
            when_needed=when_needed,
        )

    def __enter__(self) -> Sandbox:
        if self._made is not None:
            self._made.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def _judging(self) -> Judge:
        with self._making:
            if self._made is None:
                self._made = self._make()
                self._made.start()
            return self._made

    @property
    def level(self) -> Level:
        """How programs are isolated: by `namespaces`, or as a `process` with limits alone."""
        return self._judging.level

    @property
    def limits(self) -> Limits:
        """What one program may use."""
        return self._judging.limits

    @property
    def packages(self) -> Packages | None:
        """What programs may import; None where they see all that is installed."""
        return self._judging.packages

    def can_import(self, module: str) -> bool:
        """Whether programs can."""
        return self.packages.can_import(module) if self.packages else find_spec(module.partition(".")[0]) is not None

    def run(self, program: Program) -> Report:
        """Judge `program`, waiting for the verdict."""
        own: Future[Report] = Future()
        try:
            while True:
                future = self._claim(program, own)
                if future is own:
                    self._settle(program, own)
                with suppress(_GivenUpError):
                    return future.result()
        finally:  # wherever it was interrupted: others may wait for its verdict
            self._give_up(program, own, _GivenUpError())

    async def arun(self, program: Program) -> Report:
        """Judge `program` without blocking the event loop."""
        while True:
            own: Future[Report] = Future()
            future = self._claim(program, own)
            if future is own:
                try:
                    self._threads.submit(self._settle_for_others, program, own)
                except RuntimeError as error:  # closed in the meantime, or no more threads
                    self._give_up(program, own, error)
            with suppress(_GivenUpError):
                return await asyncio.shield(asyncio.wrap_future(future))

    @property
    def server_pid(self) -> int:
        """Process id of the fork server without preloaded modules, which is started if there is none."""
        from orchestai.sandbox.local_judge import LocalJudge

        judge = self._judging
        assert isinstance(judge, LocalJudge), "programs run on other machines"
        return judge.server_pid

    def close(self) -> None:
        """End all that runs; programs without a verdict get `infra_error`."""
        with self._lock:
            self._closed = True
        with self._making:
            if self._made is not None:
                self._made.close()
        self._threads.shutdown()

    def _claim(self, program: Program, own: Future[Report]) -> Future[Report]:
        """The verdict to come: `own` if it is the caller that is to see to it, else another's."""
        with self._lock:
            if self._closed:
                raise RuntimeError("the sandbox is closed")
            known = self._cache.get(program)
            if known is not None:
                self._cache.move_to_end(program)
                return known
            own.set_running_or_notify_cancel()  # so that nobody who waits for it can cancel it
            self._cache[program] = own
            while len(self._cache) > self._cache_size:
                self._cache.popitem(last=False)
            return own

    def _settle(self, program: Program, own: Future[Report]) -> None:
        try:
            self._await_turn(own)
            report = self._judge(program)
        finally:
            self._end_turn(own)
        if not report.repeatable:
            self._forget(program, own)
        own.set_result(report)

    def _settle_for_others(self, program: Program, own: Future[Report]) -> None:
        try:
            self._settle(program, own)
        except BaseException as error:
            self._give_up(program, own, error)

    def _give_up(self, program: Program, own: Future[Report], error: BaseException) -> None:
        if not own.done():
            self._end_turn(own)  # again: an interrupt may have come just when it was to end
            self._forget(program, own)
            own.set_exception(error)

    def _await_turn(self, own: Future[Report]) -> None:
        """No semaphore: one that Ctrl-C interrupts may lose a turn, or the lock that it holds, for ever."""
        while True:
            with self._lock:
                if len(self._running) < self.workers:
                    self._waiting.pop(own, None)
                    self._running.add(own)
                    self._wake_next()
                    return
                gate = self._waiting.setdefault(own, SimpleQueue())
            gate.get()

    def _end_turn(self, own: Future[Report]) -> None:
        """Whether it had one, waited for one, or neither."""
        with self._lock:
            self._waiting.pop(own, None)
            self._running.discard(own)
            self._wake_next()

    def _wake_next(self) -> None:
        if self._waiting and len(self._running) < self.workers:
            next(iter(self._waiting.values())).put(None)

    def _forget(self, program: Program, own: Future[Report]) -> None:
        with self._lock:
            if self._cache.get(program) is own:
                del self._cache[program]

    def _judge(self, program: Program) -> Report:
        return self._judging.judge(program)
