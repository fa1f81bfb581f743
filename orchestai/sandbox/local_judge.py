"""Judges programs on this machine: by their tests, and by what tells tests that were earned from forged ones."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import Any, Protocol

from orchestai.errors import InfrastructureError
from orchestai.sandbox.fences import unfenced
from orchestai.sandbox.fork_server import SlotLostError
from orchestai.sandbox.helper_checks import Unearned, find_unearned
from orchestai.sandbox.levels import Level, Strictness, choose_level
from orchestai.sandbox.packages import Packages, find_packages
from orchestai.sandbox.pool import ServerPool
from orchestai.sandbox.program import Limits, Program, Report, TestVerdict
from orchestai.sandbox.static.exchanges import exchange_more_than_copies
from orchestai.sandbox.static.helper_tests import find_helper_tests
from orchestai.sandbox.static.negated_tests import in_likeness, make_negated
from orchestai.sandbox.static.replaced_tests import find_replaced_tests
from orchestai.sandbox.static.test_discovery import list_tests, packed
from orchestai.tasks.suites import ANSWER_PACKAGES, PROGRAM_PACKAGES

_SEEN = (*PROGRAM_PACKAGES, "math_verify", "antlr4", "pytest", "pip")
"""What suites name, what `math_reward_fn` runs in the sandbox, what runs the tests of repositories, and a command."""
_LEAST_CHECKING_S = 2.0
"""Beyond its limit, for what a program's own functions say; see `helper_checks`."""


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
        self, workers: int, limits: Limits, preload: Sequence[str], strictness: Strictness, packages: Sequence[str]
    ) -> None:
        self.limits = limits
        level, bubblewrap = choose_level(strictness)
        self.level: Level = level
        self.packages = find_packages((*packages, *preload), _SEEN, ANSWER_PACKAGES) if bubblewrap else None
        self._pool = ServerPool(workers, limits, preload, bubblewrap, self.packages)

    def start(self) -> None:
        """Start the fork server without preloaded modules, if there is none."""
        self._pool.server()

    @property
    def server_pid(self) -> int:
        """Process id of the fork server without preloaded modules, which is started if there is none."""
        return self._pool.server().pid

    def close(self) -> None:
        """See `Judge.close`."""
        self._pool.close()

    def judge(self, program: Program) -> Report:
        """See `Judge.judge`."""
        held: dict[str, Any] = {"level": self.level, "isolation": program.isolation}
        try:
            names = list_tests(program.tests)
            packed(program.tests, names, program.entry_point)
            if program.isolation == "split" and exchange_more_than_copies(program.tests, program.entry_point):
                program = replace(program, isolation="shared")
                held["isolation"] = "shared"
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            return Report("broken", reason=f"the tests are not Python: {error}", **held)
        if not names:
            return Report("broken", reason="the tests define no unittest.TestCase with a test", **held)
        program = replace(program, code=unfenced(program.code))
        try:
            if program.isolation == "in_process":
                verdict = self._pool.judge(replace(program, tests=in_likeness(program.tests)), names)
                if forged := self._forged(program, names, verdict):
                    verdict = _tampered(verdict, forged)
            else:
                verdict = self._pool.judge(program, names)
                verdict = _without_replaced(verdict, names, find_replaced_tests(program.tests, program.entry_point))
                if helper_tests := find_helper_tests(program.tests, program.entry_point):
                    rewarded = _passed(names, verdict)
                    seconds = max(_LEAST_CHECKING_S, self.limits.wall_s - verdict.get("wall_s", 0.0))
                    unearned = find_unearned(self._pool.judge, program, helper_tests, rewarded, seconds)
                    forged = unearned.forged
                    verdict = _tampered(verdict, forged) if forged else _without(verdict, names, unearned)
        except SlotLostError as error:
            unfinished = [{"outcome": "died"}] * len(names)
            verdict = {"status": "died", "reason": f"ended the sandbox twice: {error}", "tests": unfinished}
        except (InfrastructureError, OSError) as error:
            verdict = {"status": "infra_error", "reason": str(error)}
        if verdict["status"] == "infra_error":
            return Report("infra_error", total=len(names), reason=verdict["reason"], **held)
        tests = tuple(TestVerdict(name, **test) for name, test in zip(names, verdict.pop("tests"), strict=True))
        passed = sum(test.outcome == "passed" for test in tests)
        return Report(passed=passed, total=len(tests), tests=tests, **verdict, **held)

    def _forged(self, program: Program, names: tuple[str, ...], verdict: dict[str, Any]) -> set[str]:
        """The tests that the program passed, and then passed again with the opposite asserted."""
        passed = _passed(names, verdict)
        forged: set[str] = set()
        for negated in make_negated(program.tests, names):
            if passed & set(negated.names):
                again = self._pool.judge(replace(program, tests=negated.source), names)
                if again["status"] == "infra_error":
                    raise InfrastructureError("sandbox", again["reason"])
                forged |= passed & set(negated.names) & _passed(names, again)
        return forged


def _passed(names: Sequence[str], verdict: dict[str, Any]) -> set[str]:
    tests = zip(names, verdict.get("tests", ()), strict=False)
    return {name for name, test in tests if test["outcome"] == "passed"}


def _tampered(verdict: dict[str, Any], forged: set[str]) -> dict[str, Any]:
    reason = f"passed {', '.join(sorted(forged))} whatever was expected"
    failed = {"outcome": "failed", "message": "the program tampers with its tests"}
    tests = [test | failed if test["outcome"] == "passed" else test for test in verdict["tests"]]
    return verdict | {"status": "tampered", "reason": reason, "tests": tests}


def _without_replaced(verdict: dict[str, Any], names: Sequence[str], replaced: Collection[str]) -> dict[str, Any]:
    error = {
        "outcome": "error",
        "message": "a function of the program's stands for this test, or for what it asserts by",
    }
    passed = _passed(names, verdict) & set(replaced)
    if not passed:
        return verdict
    tests = [test | error if name in passed else test for name, test in zip(names, verdict["tests"], strict=True)]
    return verdict | {"tests": tests}


def _without(verdict: dict[str, Any], names: Sequence[str], unearned: Unearned) -> dict[str, Any]:
    fickle = {"outcome": "failed", "message": "rests on a function of the program's that does not always say the same"}
    unchecked = {"outcome": "timeout", "message": "no time was left to check the program's functions that it rests on"}
    tests = [
        test | (fickle if name in unearned.fickle else unchecked if name in unearned.unchecked else {})
        for name, test in zip(names, verdict.get("tests", ()), strict=False)
    ]
    return verdict | {"tests": tests}
