"""Verdicts on samples, kept one a line beside the samples, so that an interrupted run goes on where it stopped."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import asdict, replace
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from orchestai.errors import UserError
from orchestai.evaluation.samples.sample_files import Sample
from orchestai.outcome import Scored
from orchestai.sandbox import Report, Sandbox, TestVerdict
from orchestai.sandbox.program import Status
from orchestai.storage import artifacts
from orchestai.tasks.task import UNIT_TESTS, Task

_JUDGING = 2
"""Grows when the same program may get another verdict than from an earlier version, whose verdicts are not kept."""


class Verdict(BaseModel):
    """What the sandbox found of one sample.

    Attributes:
        index: of the sample in its file.
        fingerprint: of the sample and of all that decides its verdict; see `fingerprint`.
        passed, total, success, status, reason, level, wall_s, cpu_s, peak_mb, tests: as in `Report`.
    """

    model_config = ConfigDict(frozen=True)

    task_id: str
    index: int
    fingerprint: str
    passed: int
    total: int
    success: bool
    status: Status
    reason: str
    level: str
    wall_s: float
    cpu_s: float
    peak_mb: float
    tests: tuple[TestVerdict, ...]

    @classmethod
    def of(cls, sample: Sample, fingerprint: str, report: Report) -> Verdict:
        return cls(
            task_id=sample.task.task_id,
            index=sample.index,
            fingerprint=fingerprint,
            passed=report.passed,
            total=report.total,
            success=report.success,
            status=report.status,
            reason=_encodable(report.reason),
            level=report.level,
            wall_s=report.wall_s,
            cpu_s=report.cpu_s,
            peak_mb=report.peak_mb,
            tests=tuple(
                replace(test, message=_encodable(test.message), output=_encodable(test.output)) for test in report.tests
            ),
        )


class VerdictFile:
    """A file of verdicts; it is created at once, so that a place that cannot be written costs no judgment.

    Attributes:
        known: the verdicts that it held when it was opened, by index and fingerprint.
        problems: `FILE:LINE: what is wrong` for each line that is none, such as one that a crash tore.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        artifacts.append(path, b"")
        lines, self.problems = artifacts.read_lines(path)
        self.known: dict[tuple[int, str], Verdict] = {}
        for where, line in lines:
            try:
                verdict = Verdict.model_validate(line)
            except ValidationError:
                self.problems.append(f"{where}: not a verdict; skipped")
                continue
            self.known[verdict.index, verdict.fingerprint] = verdict

    def append(self, verdict: Verdict) -> None:
        """Append one verdict; on return it is on the disk."""
        artifacts.append(self.path, verdict.model_dump_json().encode() + b"\n")


def verdict_path(samples: Path) -> Path:
    """`SAMPLES_results.jsonl` beside `SAMPLES.jsonl` or `SAMPLES.jsonl.gz`."""
    name = samples.name.removesuffix(".gz").removesuffix(".jsonl")
    return samples.with_name(f"{name}_results.jsonl")


def check_distinct(paths: Sequence[Path]) -> None:
    """Refuse to write one file over another."""
    seen: set[Path] = set()
    for path in paths:
        if path.resolve() in seen:
            raise UserError(f"{path}: samples, verdicts (--output) and figures (--json) need a file each; rename one")
        seen.add(path.resolve())


def report_of(task: Task, outcome: Scored) -> Report:
    """The report on an answer that no unit tests judged: its scorer is the one test, passed at full score."""
    passed = outcome.value >= 1.0
    verdict = TestVerdict(
        task.scorer_name, "passed" if passed else "failed", "" if passed else f"score {outcome.value:g}"
    )
    return Report("ok", passed=int(passed), total=1, tests=(verdict,))


def fingerprint(sample: Sample, sandbox: Sandbox) -> str:
    """Of the answer, what judges it and how, the sandbox's limits, level and packages, and the Python that runs it."""
    task = sample.task
    other = [] if task.scorer_name == UNIT_TESTS else [task.scorer_name, task.suite, task.answers, task.details]
    return artifacts.fingerprint(
        {
            "judging": _JUDGING,
            "task": [task.task_id, task.test, task.entry_point, task.isolation, *other],
            "code": sample.code,
            "limits": asdict(sandbox.limits),
            "level": sandbox.level,
            "modules": sorted(sandbox.packages.modules) if sandbox.packages else None,
            "python": platform.python_version_tuple()[:2],
        }
    )


def _encodable(text: str) -> str:
    """Without half characters (lone surrogates), which a program may print and no file can hold."""
    return text.encode("utf-8", "backslashreplace").decode()
