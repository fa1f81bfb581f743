"""What the sandbox takes and gives: a program with its tests, its limits, and the report."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from orchestai.errors import FaultKind
from orchestai.outcome import Outcome, Scored, Unscorable

Isolation: TypeAlias = Literal["sealed", "open"]
OpenVerdicts: TypeAlias = Literal["mark", "refuse"]
"""What an open verdict is worth: it counts and is marked, or is none."""
OPEN_REFUSED = "the tests can only be judged open, and sandbox.open_verdicts is refuse: "
_Loading: TypeAlias = Literal["syntax_error", "import_error", "no_entry_point"]
_NotJudged: TypeAlias = Literal["broken", "refused", "infra_error"]
Status: TypeAlias = Literal["ok", _Loading, "timeout", "died", "memory", "tampered", _NotJudged]
TestOutcome: TypeAlias = Literal["passed", "failed", "error", "skipped", "timeout", "died", "memory", "not_run"]


@dataclass(frozen=True)
class Limits:
    """What one program may use.

    Attributes:
        wall_s: seconds for everything, restarts after a hang or a crash included.
        load_s: seconds until program and tests are loaded.
        test_s: seconds for one test (or one class fixture).
        memory_mb: address space of each process beyond what the sandbox itself needs; all processes of a program
            together may hold half as much again.
        processes: most processes at a time besides the sandbox's own.
        file_mb: largest file it may write.
        open_files: most open descriptors per process.
    """

    wall_s: float = 20.0
    load_s: float = 10.0
    test_s: float = 6.0
    memory_mb: int = 1024
    processes: int = 64
    file_mb: int = 64
    open_files: int = 256


@dataclass(frozen=True)
class Program:
    """A candidate's source and the source of its tests (`unittest.TestCase` classes that call `entry_point`).

    Code that is no Python but holds a Markdown fence is what the fence holds.

    Attributes:
        isolation: `sealed` runs the tests in another process than the candidate, and plain data cross as copies; `open`
            runs both in one process. `auto` is sealed where the source of the tests shows that copies do, else open.
        given: source that the program had to begin with; what tests use of it beside the entry point is run from there.
    """

    code: str
    tests: str
    entry_point: str = "task_func"
    isolation: Isolation | Literal["auto"] = "auto"
    given: str = ""


@dataclass(frozen=True)
class TestVerdict:
    """What came of one test, `Class.method`.

    Attributes:
        message: why it did not pass.
        wall_s: seconds that it took.
        output: the beginning of what it, or the candidate in it, printed through `sys.stdout` and `sys.stderr`. Both
            are known of tests that came to an end.
    """

    __test__ = False

    name: str
    outcome: TestOutcome
    message: str = ""
    wall_s: float = 0.0
    output: str = ""


_OF_THE_PROGRAM = ("ok", "syntax_error", "no_entry_point", "tampered", "broken", "refused")
_COMPUTED = 0.75
"""Share of its time that a program computed, above which its time-out is its own."""


@dataclass(frozen=True)
class Report:
    """The verdict on a program.

    Attributes:
        status: `ok` if every test ran to its end; else the first thing that went wrong (see docs/sandbox.md).
        passed: tests passed; a skipped, missing or unfinished one is not.
        total: tests that the source of the tests defines.
        tests: a verdict for each, in the order of the source.
        wall_s: seconds that the judgment took.
        cpu_s: CPU seconds of all its processes that were waited for, as the system counts them.
        peak_mb: the most memory that one of them held beyond what it was forked with.
        reason: says why the status is not `ok`.
        level: how the program was held; see `Sandbox`.
        isolation: how it was judged, `sealed` from its tests or `open` to them.
    """

    status: Status
    passed: int = 0
    total: int = 0
    tests: tuple[TestVerdict, ...] = field(default=())
    wall_s: float = 0.0
    cpu_s: float = 0.0
    peak_mb: float = 0.0
    reason: str = ""
    level: str = ""
    isolation: Isolation = "sealed"

    @property
    def success(self) -> bool:
        """All tests passed, and there were some."""
        return 0 < self.total == self.passed

    @property
    def repeatable(self) -> bool:
        """Whether a machine with more, or less, to do would have said the same.

        Not so of deaths, a lack of memory, a faulty sandbox, and programs that failed while loading, which may have
        lacked a thread or a process; nor of time-outs, unless the program computed nearly all the time.
        """
        outcomes = {test.outcome for test in self.tests}
        if self.status == "timeout" and self.cpu_s >= _COMPUTED * self.wall_s:
            return outcomes.isdisjoint(("died", "memory"))
        return self.status in _OF_THE_PROGRAM and outcomes.isdisjoint(("timeout", "died", "memory", "not_run"))

    def outcome(self) -> Outcome:
        """Fraction of tests passed; Unscorable where the fault is not the program's."""
        if self.status in ("infra_error", "broken", "refused") or self.total == 0:
            kind: FaultKind = "sandbox" if self.status == "infra_error" else "task"
            return Unscorable(kind, f"sandbox: {self.status}: {self.reason}")
        return Scored(self.passed / self.total)
