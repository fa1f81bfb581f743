"""Judges programs on this machine by their tests: which fork server runs a program, and what if one is lost."""

from __future__ import annotations

import re
import threading
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from importlib.util import find_spec
from queue import SimpleQueue
from typing import Any, Protocol

from orchestai.errors import InfrastructureError, UserError
from orchestai.sandbox.fork_server import ForkServer, SlotLostError
from orchestai.sandbox.inside import AGREEING
from orchestai.sandbox.levels import Level, Strictness, choose_level, refusal
from orchestai.sandbox.packages import Packages, find_packages
from orchestai.sandbox.program import OPEN_REFUSED, Isolation, Limits, OpenVerdicts, Program, Report, TestVerdict
from orchestai.sandbox.static.modes import objection_to_copies, only_calls_and_compares
from orchestai.sandbox.static.test_discovery import helper_tests, list_tests, names_of, packed, with_given
from orchestai.tasks.programs import unfenced
from orchestai.tasks.suites import ANSWER_PACKAGES, PROGRAM_PACKAGES
from orchestai.text.syntax import free_names

_SEEN = (*PROGRAM_PACKAGES, "math_verify", "antlr4", "pytest", "pip")
"""What suites name, what `math_reward_fn` runs in the sandbox, what runs the tests of repositories, and a command."""
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


class Judge(Protocol):
    """Judges programs, here or elsewhere; called by several threads.

    Attributes:
        level: how programs are isolated.
        limits: what one program may use.
        packages: what programs may import; None where they see all that is installed.
    """

    level: Level
    limits: Limits
    packages: Packages | None

    def start(self) -> None:
        """Be ready for the first program."""

    def judge(self, program: Program) -> Report:
        """The verdict; a fault of the infrastructure is the report's."""

    def close(self) -> None:
        """End all that runs."""


class LocalJudge:
    """Judges programs in forked processes of this machine (a `Judge`); `judge` has at most `workers` callers.

    A fork costs the more the more its parent holds. So there is one fork server for every beginning of `preload`,
    started when a program first needs it: with [numpy, pandas, sklearn.svm], a program that names numpy runs on a
    server with numpy alone, and one that names sklearn and svm on one with all three. A server that dies is replaced,
    and the programs that it ran are run again, each on a server of its own.

    Args: see `Sandbox`, which also says what is raised.
    """

    def __init__(
        self,
        workers: int,
        limits: Limits,
        preload: Sequence[str],
        strictness: Strictness,
        packages: Sequence[str],
        open_verdicts: OpenVerdicts,
    ) -> None:
        self.limits = limits
        self._open_verdicts = open_verdicts
        self.level, self._bubblewrap = choose_level(strictness)
        self.packages = find_packages((*packages, *preload), _SEEN, ANSWER_PACKAGES) if self._bubblewrap else None
        for module in preload:
            if self.level != "none" and find_spec(module.partition(".")[0]) is None:
                raise UserError(f"sandbox: no module {module!r}; install it or take it out of sandbox.preload")
        self._slots_per_server = workers + (workers + 1) // 2  # while some judge, others get ready for the next program
        self._preload = (*_SELDOM_NEEDED, *preload)
        self._lock = threading.Lock()
        self._servers: dict[int, ForkServer] = {}
        self._closed = False
        self._slots: SimpleQueue[int] = SimpleQueue()
        for slot in range(self._slots_per_server):
            self._slots.put(slot)

    def start(self) -> None:
        """Start the fork server without preloaded modules, if there is none."""
        if self.level != "none":
            self.server()

    def close(self) -> None:
        """End all servers with all that they run. Whoever waits for a verdict gets that of a faulty sandbox."""
        with self._lock:
            self._closed = True
            servers = list(self._servers.values())
            self._servers.clear()
        for server in servers:
            server.close()

    def judge(self, program: Program) -> Report:
        """See `Judge.judge`."""
        held: dict[str, Any] = {"level": self.level}
        if self.level == "none":
            return Report("refused", reason=refusal(), **held)
        program = replace(program, code=unfenced(program.code, program.entry_point))
        try:
            isolation, objection = _isolation_of(program)
            held["isolation"] = isolation
            source = with_given(program.tests, program.given, program.entry_point)
            program = replace(program, isolation=isolation, tests=source, given="")
            names = list_tests(source)
            packed(source, names, program.entry_point, isolation)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            return Report("broken", reason=f"the tests are not Python: {error}", **held)
        if not names:
            return Report("broken", reason="the tests define no unittest.TestCase with a test", **held)
        if objection:
            return Report("refused", total=len(names), reason=f"the tests cannot be sealed: {objection}", **held)
        if isolation == "open" and self._open_verdicts == "refuse":
            objection = objection_to_copies(source, program.entry_point) or "they do more than compare plain data"
            return Report("refused", total=len(names), reason=f"{OPEN_REFUSED}{objection}", **held)
        try:
            verdict = self._run(program, names)
        except SlotLostError as error:
            unfinished = [{"outcome": "died"}] * len(names)
            verdict = {"status": "died", "reason": f"ended the sandbox twice: {error}", "tests": unfinished}
        except (InfrastructureError, OSError) as error:
            verdict = {"status": "infra_error", "reason": str(error)}
        if verdict["status"] == "infra_error":
            return Report("infra_error", total=len(names), reason=verdict["reason"], **held)
        tests = tuple(TestVerdict(name, **test) for name, test in zip(names, verdict.pop("tests"), strict=True))
        if any(test.message == AGREEING for test in tests):  # a liar in one of them is none in the others
            unearned = helper_tests(source, program.entry_point)
            tests = tuple(
                replace(test, outcome="failed", message=AGREEING) if test.name in unearned else test for test in tests
            )
        passed = sum(test.outcome == "passed" for test in tests)
        return Report(passed=passed, total=len(tests), tests=tests, **verdict, **held)

    def server(self, tier: int = 0) -> ForkServer:
        """The server that has imported the first `tier` modules, started if there is none."""
        with self._lock:
            if tier not in self._servers:
                self._servers[tier] = self._start(self._slots_per_server, tier)
            return self._servers[tier]

    def _run(self, program: Program, names: Sequence[str]) -> dict[str, Any]:
        """The verdict on a program with the tests `names`; see `ForkServer.judge`. Raises SlotLostError: the program
        ended the process that watched it, twice. Raises InfrastructureError: no server could be started or kept."""
        text = f"{program.code} {program.tests}"
        needed = (
            number
            for number, module in reversed([*enumerate(self._preload, 1)])
            if all(name in text and re.search(rf"\b{name}\b", text) for name in module.split("."))
        )
        tier = next(needed, 0)
        slot = self._slots.get()
        try:
            server = self.server(tier)
            try:
                return server.judge(slot, program, names)
            except SlotLostError as error:
                lost = error
                with self._lock:
                    if dead := self._servers.get(tier) is server and not server.alive():
                        del self._servers[tier]
                if dead:
                    server.close()
        finally:
            self._slots.put(slot)
        for _ in range(_TRIES if self._bubblewrap else 1):
            with closing(self._start(1, tier)) as alone:
                try:
                    return alone.judge(0, program, names)
                except SlotLostError as error:
                    lost = error
        if self._bubblewrap:  # in namespaces it cannot have been the program's doing
            raise InfrastructureError("sandbox", f"lost {_TRIES + 1} times: {lost}")
        raise lost

    def _start(self, slots: int, tier: int) -> ForkServer:
        """A fork server that has judged a program of ours rightly; else its faults would look like zeros.

        Started again where somebody killed it meanwhile.
        """
        reason = ""
        for _ in range(_TRIES):
            if self._closed:
                raise InfrastructureError("sandbox", "the sandbox was closed")
            server: ForkServer | None = None
            try:
                server = ForkServer(slots, self.limits, self._preload[:tier], self._bubblewrap, self.packages)
                verdict = server.judge(0, _SELF_TEST, list_tests(_SELF_TEST.tests))
            except SlotLostError as error:
                reason = str(error)
                if server is not None:
                    server.close()
                continue
            found = [(test["outcome"], test["message"]) for test in verdict.get("tests", ())]
            if verdict["status"] == "ok" and found == [("passed", ""), ("failed", "AssertionError: 3 != 4")]:
                return server
            server.close()
            reason = f"{verdict['status']} {verdict['reason']}"
            break
        raise InfrastructureError("sandbox", f"the sandbox cannot run programs here: {reason}")


def _isolation_of(program: Program) -> tuple[Isolation, str]:
    """How a program is to be judged, and what in its tests stands in the way of that. Raises as `list_tests` does."""
    if program.isolation == "open":
        return "open", ""
    tests, entry_point = program.tests, program.entry_point
    objection = objection_to_copies(tests, entry_point)
    if program.isolation == "sealed":
        unknown = {*free_names(with_given(tests, program.given, entry_point))} - {entry_point}
        return "sealed", objection or (f"they use {min(unknown)} of the program" if unknown else "")
    plain = not objection and only_calls_and_compares(tests, entry_point, names_of(program.given, entry_point))
    return "sealed" if plain else "open", ""
