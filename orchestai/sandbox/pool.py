"""The fork servers of a sandbox: which one runs a program, and what happens when one is lost."""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from importlib.util import find_spec
from queue import SimpleQueue
from typing import Any

from orchestai.errors import InfrastructureError, UserError
from orchestai.sandbox.bubblewrap import Bubblewrap
from orchestai.sandbox.fork_server import ForkServer, SlotLostError
from orchestai.sandbox.packages import Packages
from orchestai.sandbox.program import Limits, Program
from orchestai.sandbox.static.test_discovery import list_tests

_TRIES = 30
"""Times that a server is started, and a program run on one of its own, before the fault counts as the system's."""
_SELDOM_NEEDED = ("shutil", "tempfile", "unittest.mock")
"""Take long to import and make forks slower, so they are in servers of their own."""
_SELF_TEST = Program(
    code="def task_func(a, b): return a + b",
    tests="""\
import unittest
class SelfTestCase(unittest.TestCase):
    def test_right(self): self.assertEqual(task_func(1, 2), 3)
    def test_wrong(self): self.assertEqual(task_func(1, 2), 4)
""",
)


class ServerPool:
    """Runs programs, each on a fork server that has imported what it needs, and little more.

    A fork costs the more the more its parent holds. So there is one server for every beginning of `preload`, started
    when a program first needs it: with [numpy, pandas, sklearn.svm], a program that names numpy runs on a server with
    numpy alone, and one that names sklearn and svm on one with all three. A server that dies is replaced, and the
    programs that it ran are run again, each on a server of its own.

    Args:
        workers: programs that are judged at a time; `judge` has no more callers.
        preload: modules, the lighter and commoner first.
        bubblewrap, packages: see `ForkServer`.

    Raises:
        UserError: a module of `preload` is not installed.
    """

    def __init__(
        self,
        workers: int,
        limits: Limits,
        preload: Sequence[str],
        bubblewrap: Bubblewrap | None,
        packages: Packages | None,
    ) -> None:
        for module in preload:
            if find_spec(module.partition(".")[0]) is None:
                raise UserError(f"sandbox: no module {module!r}; install it or take it out of sandbox.preload")
        self._limits = limits
        self._slots_per_server = workers + (workers + 1) // 2  # while some judge, others get ready for the next program
        self._preload = (*_SELDOM_NEEDED, *preload)
        self._bubblewrap = bubblewrap
        self._packages = packages
        self._lock = threading.Lock()
        self._servers: dict[int, ForkServer] = {}
        self._closed = False
        self._slots: SimpleQueue[int] = SimpleQueue()
        for slot in range(self._slots_per_server):
            self._slots.put(slot)

    def judge(self, program: Program, names: Sequence[str]) -> dict[str, Any]:
        """The verdict on a program with the tests `names`; see `ForkServer.judge`.

        Raises:
            SlotLostError: the program ended the process that watched it, twice.
            InfrastructureError: no server could be started or kept.
        """
        tier = self._tier(program)
        slot = self._slots.get()
        try:
            server = self.server(tier)
            try:
                return server.judge(slot, program, names)
            except SlotLostError:
                self._forget_if_dead(tier, server)
        finally:
            self._slots.put(slot)
        return self._judge_alone(program, names, tier)

    def server(self, tier: int = 0) -> ForkServer:
        """The server that has imported the first `tier` modules, started if there is none."""
        with self._lock:
            if self._closed:
                raise InfrastructureError("sandbox", "the sandbox was closed")
            if tier not in self._servers:
                self._servers[tier] = self._start(self._slots_per_server, tier)
            return self._servers[tier]

    def close(self) -> None:
        """End all servers with all that they run. Whoever waits in `judge` gets InfrastructureError."""
        with self._lock:
            self._closed = True
            servers = list(self._servers.values())
            self._servers.clear()
        for server in servers:
            server.close()

    def _tier(self, program: Program) -> int:
        text = f"{program.code} {program.tests}"
        needed = (
            i
            for i, module in reversed(list(enumerate(self._preload, 1)))
            if all(name in text and re.search(rf"\b{name}\b", text) for name in module.split("."))
        )
        return next(needed, 0)

    def _judge_alone(self, program: Program, names: Sequence[str], tier: int) -> dict[str, Any]:
        """Run a program again whose server was lost. In namespaces it cannot have been the program's doing."""
        lost: SlotLostError | None = None
        for _ in range(_TRIES if self._bubblewrap else 1):
            if self._closed:
                raise InfrastructureError("sandbox", "the sandbox was closed")
            alone = self._start(1, tier)
            try:
                return alone.judge(0, program, names)
            except SlotLostError as error:
                lost = error
            finally:
                alone.close()
        assert lost is not None
        raise InfrastructureError("sandbox", f"lost {_TRIES + 1} times: {lost}") if self._bubblewrap else lost

    def _start(self, slots: int, tier: int) -> ForkServer:
        """A fork server that has judged a program of ours rightly; else its faults would look like zeros.

        Started again where somebody killed it meanwhile.
        """
        reason = ""
        for _ in range(_TRIES):
            if self._closed:
                raise InfrastructureError("sandbox", "the sandbox was closed")
            try:
                server = ForkServer(slots, self._limits, self._preload[:tier], self._bubblewrap, self._packages)
            except SlotLostError as error:
                reason = str(error)
                continue
            try:
                verdict = server.judge(0, _SELF_TEST, list_tests(_SELF_TEST.tests))
            except SlotLostError as error:
                reason = str(error)
                server.close()
                continue
            found = [(test["outcome"], test["message"]) for test in verdict.get("tests", ())]
            if verdict["status"] == "ok" and found == [("passed", ""), ("failed", "AssertionError: 3 != 4")]:
                return server
            server.close()
            reason = f"{verdict['status']} {verdict['reason']}"
            break
        raise InfrastructureError("sandbox", f"the sandbox cannot run programs here: {reason}")

    def _forget_if_dead(self, tier: int, server: ForkServer) -> None:
        with self._lock:
            if self._servers.get(tier) is not server or server.alive():
                return
            del self._servers[tier]
        server.close()
