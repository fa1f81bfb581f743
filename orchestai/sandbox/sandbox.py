"""The sandbox: runs untrusted programs against their unit tests, some at a time, and reports."""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from queue import SimpleQueue
from types import TracebackType
from typing import Any

from orchestai.config import SandboxConfig
from orchestai.errors import InfrastructureError
from orchestai.sandbox.fork_server import ForkServer, SlotLostError
from orchestai.sandbox.inventory import list_tests
from orchestai.sandbox.program import Limits, Program, Report, TestVerdict

_SELF_TEST = Program(
    code="def task_func(a, b): return a + b",
    tests="""\
import unittest
class SelfTestCase(unittest.TestCase):
    def test_right(self): self.assertEqual(task_func(1, 2), 3)
    def test_wrong(self): self.assertEqual(task_func(1, 2), 4)
""",
)


class Sandbox:
    """Judges programs in forked processes. Safe to use from many threads and tasks.

    Args:
        workers: programs that run at a time; further ones wait.
        limits: what one program may use.
        preload: modules that the fork server imports once, so that programs that use them load quickly.
        cache_size: verdicts kept in memory; a program that was judged before is not run again.
    """

    def __init__(
        self, workers: int = 2, limits: Limits | None = None, preload: Sequence[str] = (), cache_size: int = 4096
    ) -> None:
        self.limits = limits or Limits()
        self._workers = workers
        self._preload = tuple(preload)
        self._cache_size = cache_size
        self._cache: OrderedDict[Program, Future[Report]] = OrderedDict()
        self._lock = threading.Lock()
        self._server: ForkServer | None = None
        self._closed = False
        self._slots: SimpleQueue[int] = SimpleQueue()
        for slot in range(workers):
            self._slots.put(slot)
        self._threads = ThreadPoolExecutor(workers, thread_name_prefix="sandbox")

    @classmethod
    def from_config(cls, config: SandboxConfig) -> Sandbox:
        limits = Limits(wall_s=config.wall_s, test_s=config.test_s, memory_mb=config.memory_mb)
        return cls(config.workers, limits, config.preload)

    def __enter__(self) -> Sandbox:
        self._running()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def run(self, program: Program) -> Report:
        """Judge `program`, waiting for the verdict."""
        return self._submit(program).result()

    async def arun(self, program: Program) -> Report:
        """Judge `program` without blocking the event loop."""
        return await asyncio.shield(asyncio.wrap_future(self._submit(program)))

    @property
    def server_pid(self) -> int:
        """Process id of the fork server, which is started if there is none."""
        return self._running().pid

    def close(self) -> None:
        """End all that runs; programs without a verdict get `infra_error`."""
        with self._lock:
            self._closed = True
            server, self._server = self._server, None
        if server:
            server.close()
        self._threads.shutdown()

    def _submit(self, program: Program) -> Future[Report]:
        with self._lock:
            if self._closed:
                raise RuntimeError("the sandbox is closed")
            known = self._cache.get(program)
            if known is not None:
                self._cache.move_to_end(program)
                return known
            future = self._cache[program] = self._threads.submit(self._judge, program)
            while len(self._cache) > self._cache_size:
                self._cache.popitem(last=False)
        future.add_done_callback(lambda done: self._forget_unless_judged(program, done))
        return future

    def _forget_unless_judged(self, program: Program, done: Future[Report]) -> None:
        if done.exception() or done.result().status == "infra_error":
            with self._lock:
                self._cache.pop(program, None)

    def _judge(self, program: Program) -> Report:
        try:
            names = list_tests(program.tests)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            return Report("broken", reason=f"the tests are not Python: {error}")
        if not names:
            return Report("broken", reason="the tests define no unittest.TestCase with a test")
        try:
            verdict = self._verdict(program, names)
        except SlotLostError as error:
            unfinished = tuple(TestVerdict(name, "died") for name in names)
            return Report("died", total=len(names), tests=unfinished, reason=f"ended the sandbox twice: {error}")
        except (InfrastructureError, OSError) as error:
            return Report("infra_error", total=len(names), reason=str(error))
        if verdict["status"] == "infra_error":
            return Report("infra_error", total=len(names), reason=verdict["reason"])
        tests = tuple(
            TestVerdict(name, outcome, message)
            for name, (outcome, message) in zip(names, verdict["tests"], strict=True)
        )
        passed = sum(test.outcome == "passed" for test in tests)
        return Report(verdict["status"], passed, len(tests), tests, verdict["wall_s"], verdict["reason"])

    def _verdict(self, program: Program, names: Sequence[str]) -> dict[str, Any]:
        """The slot's verdict. A program whose slot is lost runs once more, with a fork server to itself."""
        slot = self._slots.get()
        try:
            server = self._running()
            try:
                return server.judge(slot, program, names, self.limits)
            except SlotLostError:
                self._replace(server)
        finally:
            self._slots.put(slot)
        if self._closed:
            raise InfrastructureError("the sandbox was closed")
        alone = self._start(1)
        try:
            return alone.judge(0, program, names, self.limits)
        finally:
            alone.close()

    def _running(self) -> ForkServer:
        """The fork server, started if there is none."""
        with self._lock:
            if self._closed:
                raise InfrastructureError("the sandbox was closed")
            if self._server is None:
                self._server = self._start(self._workers)
            return self._server

    def _start(self, slots: int) -> ForkServer:
        """A fork server that has judged a program of ours rightly; else its faults would look like zeros."""
        server = ForkServer(slots, self._preload)
        try:
            verdict = server.judge(0, _SELF_TEST, list_tests(_SELF_TEST.tests), self.limits)
        except SlotLostError as error:
            verdict = {"status": "infra_error", "reason": str(error)}
        if verdict["status"] != "ok" or verdict["tests"] != [["passed", ""], ["failed", "AssertionError: 3 != 4"]]:
            server.close()
            raise InfrastructureError(f"the sandbox cannot run programs here: {verdict['status']} {verdict['reason']}")
        return server

    def _replace(self, server: ForkServer) -> None:
        """Forget `server` if it is dead, so that the next program starts another."""
        with self._lock:
            if self._server is not server or server.alive():
                return
            self._server = None
        server.close()
