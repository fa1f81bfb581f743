"""The sandbox: runs untrusted programs against their unit tests, some at a time, and reports."""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib.util import find_spec
from queue import SimpleQueue
from typing import TYPE_CHECKING

from orchestai.config import SandboxConfig
from orchestai.sandbox.program import Limits, OpenVerdicts, Program, Report

if TYPE_CHECKING:
    from orchestai.sandbox.levels import Level, Strictness
    from orchestai.sandbox.local_judge import Judge
    from orchestai.sandbox.packages import Packages


_VERDICTS: dict[SandboxConfig, OrderedDict[Program, Report]] = {}
"""Of this process, by the settings under which programs were judged: sandboxes that are opened one after the other, as
by the stages of a run, share them."""


class Sandbox:
    """Judges programs in forked processes. Safe to use from many threads and tasks.

    Args:
        workers: programs that run at a time; further ones wait.
        limits: what one program may use.
        preload: modules that programs often import, the lighter first; they are imported once. See `LocalJudge`.
        packages: further modules that programs may import, beside the standard library, what suites name, `preload` and
            what all these need. Nothing else that is installed exists for them; without namespaces everything does.
        cache_size: verdicts kept in memory; a program that was judged before is not run again, unless its report is one
            that a busy machine may have caused (see `Report.repeatable`).
        strictness: `strict`: programs are isolated by namespaces, or there is no sandbox. `auto`: by namespaces where
            the system allows it, else they are refused. `process`: by limits alone, for trusted code.
        judge: who judges; by default this machine, as the arguments before say.
        when_needed: whether that is set up when the first program comes, or its level is asked for, and not before.
        open_verdicts: `mark`: open verdicts count, and say so. `refuse`: programs of open tests are Unscorable.
        verdicts: of programs that were judged before under the same settings; further ones are put there.

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
        open_verdicts: OpenVerdicts = "mark",
        verdicts: OrderedDict[Program, Report] | None = None,
    ) -> None:
        def make() -> Judge:
            from orchestai.sandbox.local_judge import LocalJudge

            return LocalJudge(workers, limits or Limits(), preload, strictness, packages, open_verdicts)

        self._make = make
        self._making = threading.Lock()
        self._made = judge if judge or when_needed else make()
        self._cache_size = cache_size
        self._verdicts = OrderedDict() if verdicts is None else verdicts
        self._waiting: dict[Program, list[Callable[[Report | Exception], None]]] = {}
        self._lock = threading.Lock()
        self._closed = False
        self.workers = workers
        self._programs: SimpleQueue[Program | None] = SimpleQueue()
        self._threads = [threading.Thread(target=self._judge, name="sandbox", daemon=True) for _ in range(workers)]
        for thread in self._threads:
            thread.start()

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
            open_verdicts=config.open_verdicts,
            verdicts=_VERDICTS.setdefault(config, OrderedDict()),
        )

    def __enter__(self) -> Sandbox:
        if self._made is not None:
            self._made.start()
        return self

    def __exit__(self, *_: object) -> None:
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
        """How programs are isolated: by `namespaces`, as a `process` with limits alone, or not, so they are refused."""
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
        answer: SimpleQueue[Report | Exception] = SimpleQueue()
        self._ask(program, answer.put)
        if isinstance(found := answer.get(), Exception):
            raise found
        return found

    async def arun(self, program: Program) -> Report:
        """Judge `program` without blocking the event loop."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[Report] = loop.create_future()

        def settle(found: Report | Exception) -> None:
            if answer.done():
                return
            if isinstance(found, Exception):
                answer.set_exception(found)
            else:
                answer.set_result(found)

        def tell(found: Report | Exception) -> None:
            with suppress(RuntimeError):  # the loop may have ended
                loop.call_soon_threadsafe(settle, found)

        self._ask(program, tell)
        return await answer

    @property
    def server_pid(self) -> int:
        """Process id of the fork server without preloaded modules, here; it is started if there is none."""
        return int(self._judging.server().pid)  # type: ignore[attr-defined]

    def close(self) -> None:
        """End all that runs; programs without a verdict get `infra_error`."""
        with self._lock:
            self._closed = True
        with self._making:
            if self._made is not None:
                self._made.close()
        for _ in self._threads:
            self._programs.put(None)
        for thread in self._threads:
            thread.join()

    def _ask(self, program: Program, tell: Callable[[Report | Exception], None]) -> None:
        """Have `tell` called with the verdict. An interrupt of whoever waits for it does not reach who judges."""
        with self._lock:
            if self._closed:
                raise RuntimeError("the sandbox is closed")
            report = self._verdicts.get(program)
            if report is None:
                if program not in self._waiting:
                    self._programs.put(program)
                    self._waiting[program] = []
                self._waiting[program].append(tell)
                return
            with suppress(KeyError):  # another sandbox may have dropped it just now
                self._verdicts.move_to_end(program)
        tell(report)

    def _judge(self) -> None:
        while (program := self._programs.get()) is not None:
            found: Report | Exception
            try:
                found = self._judging.judge(program)
            except Exception as error:
                found = error
            with self._lock:
                if isinstance(found, Report) and found.repeatable:
                    self._verdicts[program] = found
                    while len(self._verdicts) > self._cache_size:
                        self._verdicts.popitem(last=False)
                waiting = self._waiting.pop(program, [])
            for tell in waiting:
                tell(found)
