"""Judges programs on this machine by their tests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Protocol

from orchestai.errors import InfrastructureError
from orchestai.sandbox.fences import unfenced
from orchestai.sandbox.fork_server import SlotLostError
from orchestai.sandbox.inside import AGREEING
from orchestai.sandbox.levels import Level, Strictness, choose_level, refusal
from orchestai.sandbox.packages import Packages, find_packages
from orchestai.sandbox.pool import ServerPool
from orchestai.sandbox.program import OPEN_REFUSED, Isolation, Limits, OpenVerdicts, Program, Report, TestVerdict
from orchestai.sandbox.static.modes import objection_to_copies, only_calls_and_compares
from orchestai.sandbox.static.test_discovery import free_names, helper_tests, list_tests, names_of, packed, with_given
from orchestai.tasks.suites import ANSWER_PACKAGES, PROGRAM_PACKAGES

_SEEN = (*PROGRAM_PACKAGES, "math_verify", "antlr4", "pytest", "pip")
"""What suites name, what `math_reward_fn` runs in the sandbox, what runs the tests of repositories, and a command."""
_NOT_PLAIN = "they do more than compare plain data"


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
        ...

    def judge(self, program: Program) -> Report:
        """The verdict; a fault of the infrastructure is the report's."""
        ...

    def close(self) -> None:
        """End all that runs."""
        ...


class LocalJudge:
    """Judges programs in forked processes of this machine (a `Judge`).

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
        level, bubblewrap = choose_level(strictness)
        self.level: Level = level
        self.packages = find_packages((*packages, *preload), _SEEN, ANSWER_PACKAGES) if bubblewrap else None
        self._servers = None if level == "none" else ServerPool(workers, limits, preload, bubblewrap, self.packages)

    @property
    def _pool(self) -> ServerPool:
        assert self._servers is not None, "programs are refused"
        return self._servers

    def start(self) -> None:
        """Start the fork server without preloaded modules, if there is none."""
        if self._servers is not None:
            self._servers.server()

    @property
    def server_pid(self) -> int:
        """Process id of the fork server without preloaded modules, which is started if there is none."""
        return self._pool.server().pid

    def close(self) -> None:
        """See `Judge.close`."""
        if self._servers is not None:
            self._servers.close()

    def judge(self, program: Program) -> Report:
        """See `Judge.judge`."""
        held: dict[str, Any] = {"level": self.level}
        if self._servers is None:
            return Report("refused", reason=refusal(), **held)
        program = replace(program, code=unfenced(program.code, program.entry_point))
        try:
            isolation, objection = isolation_of(program)
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
            reason = f"{OPEN_REFUSED}{objection_to_copies(source, program.entry_point) or _NOT_PLAIN}"
            return Report("refused", total=len(names), reason=reason, **held)
        try:
            verdict = self._pool.judge(program, names)
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


def isolation_of(program: Program) -> tuple[Isolation, str]:
    """How a program is to be judged, and what in its tests stands in the way of that.

    Raises:
        SyntaxError, ValueError: the tests are not Python.
    """
    if program.isolation == "open":
        return "open", ""
    tests, entry_point = program.tests, program.entry_point
    objection = objection_to_copies(tests, entry_point)
    if program.isolation == "sealed":
        unknown = {*free_names(with_given(tests, program.given, entry_point))} - {entry_point}
        return "sealed", objection or (f"they use {min(unknown)} of the program" if unknown else "")
    plain = not objection and only_calls_and_compares(tests, entry_point, names_of(program.given, entry_point))
    return "sealed" if plain else "open", ""
