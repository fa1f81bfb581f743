"""Scoring samples: each is judged by its task's scorer, some at a time, and its verdict is kept."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from orchestai.errors import FaultKind, UserError
from orchestai.evaluation.statistics import pass_at_k
from orchestai.outcome import Unscorable
from orchestai.progress import open_progress
from orchestai.rewards.scorers import judge
from orchestai.sandbox import Report, Sandbox, TestVerdict
from orchestai.sandbox.program import Isolation, Status
from orchestai.storage import artifacts
from orchestai.tasks.records import read_file
from orchestai.tasks.task import Task

_MBPP = "mbpp"


@dataclass(frozen=True)
class Sample:
    """One program for one task; `index` is its place among the samples of its file, from 0."""

    index: int
    task: Task
    code: str


def read_samples(path: Path, tasks: Sequence[Task]) -> list[Sample]:
    """The samples of a .jsonl or .jsonl.gz file.

    A row has a `task_id`, and a `solution` (the whole program) or a `completion` (which continues the task's
    `complete_prompt`); of a row with both, the solution counts. Several rows of a task are several samples.
    """
    if not path.is_file():
        raise UserError(f"{path}: no such file; pass a .jsonl or .jsonl.gz file of samples")
    by_id, first, samples = {_spelling(task.task_id, task.suite): task for task in tasks}, tasks[0], []
    for index, (where, row) in enumerate(read_file(path, "sample")):
        if "task_id" not in row:
            raise UserError(f"{where}: field 'task_id' is missing; add it, such as {first.task_id!r}")
        task = by_id.get(_spelling(row["task_id"], first.suite))
        if task is None:
            raise UserError(
                f"{where}: {first.suite} has no task {row['task_id']!r} (its first is {first.task_id!r}); "
                "correct it, or choose another --suite or tasks.path"
            )
        heads = (("solution", ""), ("completion", task.complete_prompt))
        code = next((head + row[key] for key, head in heads if isinstance(row.get(key), str)), None)
        if code is None:
            raise UserError(
                f"{where}: neither 'solution' (the whole program) nor 'completion' (what follows the prompt) is a "
                "text; add one"
            )
        samples.append(Sample(index, task, code))
    return samples


def _spelling(task_id: object, suite: str) -> str:
    """MBPP's tasks are numbers to its authors, and to others `MBPP/11` or `Mbpp/11`."""
    text = str(task_id)
    return text.lower().removeprefix("mbpp/") if suite == _MBPP else text


class Verdict(BaseModel):
    """What the sandbox found of one sample; `index` is its place in the file, the rest is as in `Report`."""

    model_config = ConfigDict(frozen=True)

    task_id: str
    index: int
    passed: int
    total: int
    success: bool
    status: Status
    reason: str
    level: str
    isolation: Isolation = "sealed"
    wall_s: float
    cpu_s: float
    peak_mb: float
    tests: tuple[TestVerdict, ...]

    @classmethod
    def of(cls, sample: Sample, report: Report) -> Verdict:
        tests = [
            replace(test, message=_encodable(test.message), output=_encodable(test.output)) for test in report.tests
        ]
        alike = {name: getattr(report, name) for name in cls.model_fields if hasattr(report, name)}
        own = {"task_id": sample.task.task_id, "index": sample.index, "reason": _encodable(report.reason)}
        return cls.model_validate(alike | own | {"tests": tests})


def verdict_path(samples: Path) -> Path:
    """`SAMPLES_results.jsonl` beside `SAMPLES.jsonl` or `SAMPLES.jsonl.gz`."""
    name = samples.name.removesuffix(".gz").removesuffix(".jsonl")
    return samples.with_name(f"{name}_results.jsonl")


def _encodable(text: str) -> str:
    """Without half characters (lone surrogates), which a program may print and no file can hold."""
    return text.encode("utf-8", "backslashreplace").decode()


@dataclass(frozen=True)
class Lost:
    """A sample without a verdict, since the sandbox or the tests failed, not the program."""

    index: int
    task_id: str
    fault: FaultKind
    reason: str


@dataclass(frozen=True)
class Score:
    """What the samples of a suite are worth.

    Attributes:
        verdicts: of the samples that could be judged, in the order of the file.
        lost: the samples that could not.
    """

    verdicts: tuple[Verdict, ...]
    lost: tuple[Lost, ...] = ()

    @cached_property
    def counts(self) -> dict[str, tuple[int, int]]:
        """Task id -> its samples that were judged, and those of them that pass all tests; at least one was judged."""
        found: dict[str, tuple[int, int]] = {}
        for verdict in self.verdicts:
            n, c = found.get(verdict.task_id, (0, 0))
            found[verdict.task_id] = (n + 1, c + verdict.success)
        return found

    @property
    def tasks_lost(self) -> int:
        """Tasks that no sample was judged of."""
        return len({lost.task_id for lost in self.lost} - set(self.counts))

    def pass_at(self, k: int) -> float | str:
        """Mean pass@k over the tasks, or why there is none: a task has fewer than k judged samples."""
        counts = self.counts
        if not counts:
            return "no sample could be judged"
        few = [task_id for task_id, (n, _) in counts.items() if n < k]
        if few:
            n = counts[few[0]][0]
            return (
                f"tasks with fewer than {k} judged samples: {len(few)} of {len(counts)} ({few[0]} has {n}); "
                "add samples, or choose a smaller --k"
            )
        return sum(pass_at_k(n, c, k) for n, c in counts.values()) / len(counts)

    def to_dict(self, ks: Sequence[int]) -> dict[str, Any]:
        """JSON-ready figures; `open` are samples whose tests ran in their process, where forgery is found at best."""
        found = {k: self.pass_at(k) for k in ks}
        return {
            "tasks": len(self.counts) + self.tasks_lost,
            "tasks_lost": self.tasks_lost,
            "samples": len(self.verdicts) + len(self.lost),
            "pass_at_k": {str(k): value for k, value in found.items() if isinstance(value, float)},
            "left_out": {str(k): value for k, value in found.items() if isinstance(value, str)},
            "tests_passed": sum(verdict.passed for verdict in self.verdicts),
            "tests_total": sum(verdict.total for verdict in self.verdicts),
            "statuses": dict(Counter(verdict.status for verdict in self.verdicts).most_common()),
            "open": sum(verdict.isolation == "open" for verdict in self.verdicts),
            "unscorable": [asdict(lost) for lost in self.lost],
            "by_task": {task_id: {"samples": n, "passed": c} for task_id, (n, c) in self.counts.items()},
        }

    def remarks(self, ks: Sequence[int], tasks: int) -> list[str]:
        """What a reader of the figures must know; `tasks` is the size of the suite."""
        by_reason: dict[str, list[Lost]] = {}
        for lost in self.lost:
            by_reason.setdefault(Unscorable(lost.fault, lost.reason).group, []).append(lost)
        said = [
            f"not judged: {', '.join(f'{lost.task_id} (sample {lost.index})' for lost in alike)}: "
            f"{' '.join(alike[0].reason.split())}"
            for alike in by_reason.values()
        ]
        if self.lost:
            said.append(
                f"samples not judged and left out of pass@k: {len(self.lost)} "
                f"(tasks that have no other: {self.tasks_lost}); repeat the command to judge them"
            )
        if missing := tasks - len(self.counts) - self.tasks_lost:
            said.append(f"tasks without a sample, left out of pass@k: {missing} of the suite's {tasks}")
        return said + [f"no pass@{k}: {why}" for k in ks if isinstance(why := self.pass_at(k), str)]

    def table(self, ks: Sequence[int], title: str) -> Table:
        shown = Table(title=Text(title), title_justify="left", box=SIMPLE_HEAD, show_header=False, pad_edge=False)
        shown.add_column()
        shown.add_column(justify="right")
        figures = self.to_dict(ks)
        passed, total, judged_open = (figures[key] for key in ("tests_passed", "tests_total", "open"))
        shown.add_row("tasks", str(figures["tasks"]))
        shown.add_row("samples", str(figures["samples"]))
        for k, value in figures["pass_at_k"].items():
            shown.add_row(f"pass@{k}", f"{value:.1%}", style="bold")
        shown.add_row("tests passed", f"{passed} of {total} ({passed / total:.1%})" if total else "-")
        for status, count in figures["statuses"].items():
            shown.add_row(f"status {status}", str(count))
        if judged_open:
            shown.add_row("judged open", f"{judged_open} ({judged_open / len(self.verdicts):.1%})")
        if self.lost:
            shown.add_row("not judged", str(len(self.lost)))
        return shown


async def score(
    samples: Sequence[Sample],
    sandbox: Sandbox,
    output: Path,
    *,
    workers: int,
    progress: Callable[[Verdict | Lost], None] = lambda result: None,
) -> Score:
    """Judge the samples, `workers` at a time, and write their verdicts to `output`, a line each as they come.

    Args:
        progress: called for each sample.
    """
    found: dict[int, Verdict | Lost] = {}

    async def run(waiting: Iterator[Sample]) -> None:
        for sample in waiting:
            judged = await judge(sample.task, sample.code, sandbox)
            result: Verdict | Lost
            if isinstance(outcome := judged.outcome, Unscorable):
                result = Lost(sample.index, sample.task.task_id, outcome.kind, outcome.reason)
            else:
                right = outcome.value >= 1.0
                said = "" if right else f"score {outcome.value:g}"
                # where no unit tests judged, the scorer is the one test, passed at full score
                test = TestVerdict(sample.task.scorer_name, "passed" if right else "failed", said)
                report = judged.report or Report("ok", passed=int(right), total=1, tests=(test,))
                result = Verdict.of(sample, report)
                artifacts.append(output, result.model_dump_json().encode() + b"\n")
            found[sample.index] = result
            progress(result)

    artifacts.write_text(output, "")  # a place that cannot be written costs no judgment
    waiting = iter(samples)
    runners = [asyncio.ensure_future(run(waiting)) for _ in range(workers)]
    try:
        await asyncio.gather(*runners)
    finally:
        for runner in runners:
            runner.cancel()
        await asyncio.gather(*runners, return_exceptions=True)
    results = [found[sample.index] for sample in samples]
    return Score(
        verdicts=tuple(result for result in results if isinstance(result, Verdict)),
        lost=tuple(result for result in results if isinstance(result, Lost)),
    )


@contextmanager
def progress_bar(total: int, console: Console) -> Iterator[Callable[[Verdict | Lost], None]]:
    """A progress line with the number of samples that pass; gives what `score` calls."""
    seen: Counter[str] = Counter()
    with open_progress("score", console=console) as bar:
        line = bar.add_task("score", total=total, status="")

        def show(result: Verdict | Lost) -> None:
            seen["lost" if isinstance(result, Lost) else "pass" if result.success else "fail"] += 1
            lost = f"  {seen['lost']} not judged" if seen["lost"] else ""
            bar.update(line, advance=1, status=f"{seen['pass']} pass  {seen['fail']} fail{lost}")

        yield show
