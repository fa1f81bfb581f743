"""Running tests one by one and writing down what came of each, as it comes."""

from __future__ import annotations

import time
import unittest
from collections.abc import Sequence
from types import ModuleType
from typing import Any

from ..ipc.exceptions import MAX_MESSAGE, MAX_OUTPUT, describe
from ..ipc.wire import VerdictWriter
from .candidate import Captured
from .watch import Watch

MEMORY_FAULTS = 2
"""Tests of a program that may run out of memory before the others are given up."""


class Recorder(unittest.TestResult):
    """Sends `start` and `end` with the test's number; the outcome is `passed` only if unittest says success.

    `end` also says how long the test took and what it printed.
    """

    def __init__(
        self,
        numbers: dict[unittest.TestCase, int],
        verdicts: VerdictWriter,
        memory_faults: int,
        printed: Captured,
        watch: Watch | None,
        may_fail: bool,
    ) -> None:
        super().__init__()
        self._watch = watch
        self._may_fail = may_fail
        self._printed = printed
        self._numbers = {id(test): number for test, number in numbers.items()}
        self._verdicts = verdicts
        self._outcome = self._message = ""
        self.memory_faults = memory_faults
        self.unheard = set(self._numbers.values())
        self.fixture_error = ""

    def startTest(self, test: unittest.TestCase) -> None:  # noqa: N802
        super().startTest(test)
        if self._watch is not None:
            self._watch.begin()
        self._printed.take()
        self._started = time.perf_counter()
        self._verdicts.send("start", test=self._numbers[id(test)])

    def stopTest(self, test: unittest.TestCase) -> None:  # noqa: N802
        super().stopTest(test)
        outcome, message = (self._outcome, self._message) if self._outcome else ("error", "unittest gave no verdict")
        self.unheard.discard(self._numbers[id(test)])
        if self._watch is not None:
            objection = self._watch.objection(test._testMethodName, may_fail=self._may_fail)
            if outcome == "passed" and objection:
                outcome, message = "failed", objection
            if sign := self._watch.tampering():
                self._verdicts.unloadable("tampered", sign)
                self.stop()
                return
        wall_s, output = time.perf_counter() - self._started, self._printed.take()[:MAX_OUTPUT]
        self._verdicts.end(self._numbers[id(test)], outcome, message, wall_s=wall_s, output=output)
        self._outcome = self._message = ""
        self.memory_faults += outcome == "memory"
        if self.memory_faults >= MEMORY_FAULTS:
            self.stop()

    def addSuccess(self, test: unittest.TestCase, *_: Any) -> None:  # noqa: N802
        self._note(test, "passed", "")

    addExpectedFailure = addSuccess  # type: ignore[assignment]  # noqa: N815

    def addUnexpectedSuccess(self, test: unittest.TestCase) -> None:  # noqa: N802
        self._note(test, "failed", "unexpected success")

    def addFailure(self, test: unittest.TestCase, err: Any) -> None:  # noqa: N802
        self._note(test, "failed", describe(err[1]))

    def addError(self, test: unittest.TestCase, err: Any) -> None:  # noqa: N802
        self._note(test, "memory" if issubclass(err[0], MemoryError) else "error", describe(err[1]))

    def addSkip(self, test: unittest.TestCase, reason: str) -> None:  # noqa: N802
        self._note(test, "skipped", reason)

    def addSubTest(self, test: unittest.TestCase, subtest: unittest.TestCase, err: Any) -> None:  # noqa: N802
        if err is not None:
            self._note(test, "memory" if issubclass(err[0], MemoryError) else "failed", describe(err[1]))

    def _note(self, test: unittest.TestCase, outcome: str, message: str) -> None:
        if not isinstance(test, unittest.TestCase):
            self.fixture_error = f"{test}: {'skipped: ' * (outcome == 'skipped')}{message}"
        elif self._outcome in ("", "passed"):
            self._outcome, self._message = outcome, message[:MAX_MESSAGE]


def run_tests(
    module: ModuleType,
    names: Sequence[str],
    numbers: Sequence[int],
    verdicts: VerdictWriter,
    watch: Watch | None = None,
    *,
    may_fail: bool = False,
) -> None:
    """Run the tests `names[i]` ("Class.method") for i in `numbers`; each of them gets a verdict.

    With a `watch`, what it has seen decides as well; `may_fail`: tests that pass may have caught failures themselves.
    After MEMORY_FAULTS tests that ran out of memory none is run: filling the memory takes seconds.
    """
    groups: dict[str, list[int]] = {}
    for number in numbers:
        groups.setdefault(names[number].partition(".")[0], []).append(number)
    faults = 0
    printed = Captured("stdout", "stderr")
    for class_name, group in groups.items():
        cls = module.__dict__.get(class_name)
        cases: dict[unittest.TestCase, int] = {}
        for number in group:
            method = names[number].partition(".")[2]
            if isinstance(cls, type) and issubclass(cls, unittest.TestCase) and hasattr(cls, method):
                cases[cls(method)] = number
            else:
                verdicts.end(number, "error", "the loaded tests do not have this one")
        recorder = Recorder(cases, verdicts, faults, printed, watch, may_fail)
        left = len(cases) + 1
        while faults < MEMORY_FAULTS and not recorder.shouldStop and len(recorder.unheard) < left:
            left = len(recorder.unheard)
            try:
                unittest.TestSuite(case for case, number in cases.items() if number in recorder.unheard).run(recorder)
                break
            except KeyboardInterrupt:  # which ends a suite, costs its test alone
                continue
        faults = recorder.memory_faults
        for number in sorted(recorder.unheard):
            if faults >= MEMORY_FAULTS:
                outcome, message = "not_run", "too many tests before it ran out of memory"
            else:
                outcome, message = "error", recorder.fixture_error or "unittest did not run it"
            verdicts.end(number, outcome, message[:MAX_MESSAGE])
    verdicts.send("done")
