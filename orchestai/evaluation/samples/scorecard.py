"""What the samples of a suite are worth: pass@k, tests passed, statuses, and what could not be judged."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cached_property
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.table import Table
from rich.text import Text

from orchestai.errors import FaultKind
from orchestai.evaluation.samples.verdicts import Verdict
from orchestai.evaluation.statistics import pass_at_k
from orchestai.outcome import Unscorable


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
        continued: verdicts that were known from before.
    """

    verdicts: tuple[Verdict, ...]
    lost: tuple[Lost, ...] = ()
    continued: int = 0

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

    @property
    def tests(self) -> tuple[int, int]:
        """Tests passed, and tests in all."""
        return sum(verdict.passed for verdict in self.verdicts), sum(verdict.total for verdict in self.verdicts)

    @property
    def statuses(self) -> dict[str, int]:
        """How many samples got each status, the commonest first."""
        return dict(Counter(verdict.status for verdict in self.verdicts).most_common())

    def to_dict(self, ks: Sequence[int]) -> dict[str, Any]:
        """JSON-ready figures."""
        found = {k: self.pass_at(k) for k in ks}
        passed, total = self.tests
        return {
            "tasks": len(self.counts) + self.tasks_lost,
            "tasks_lost": self.tasks_lost,
            "samples": len(self.verdicts) + len(self.lost),
            "pass_at_k": {str(k): value for k, value in found.items() if isinstance(value, float)},
            "left_out": {str(k): value for k, value in found.items() if isinstance(value, str)},
            "tests_passed": passed,
            "tests_total": total,
            "statuses": self.statuses,
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
        shown.add_row("tasks", str(len(self.counts) + self.tasks_lost))
        shown.add_row("samples", str(len(self.verdicts) + len(self.lost)))
        for k in ks:
            if isinstance(value := self.pass_at(k), float):
                shown.add_row(f"pass@{k}", f"{value:.1%}", style="bold")
        passed, total = self.tests
        shown.add_row("tests passed", f"{passed} of {total} ({passed / total:.1%})" if total else "-")
        for status, count in self.statuses.items():
            shown.add_row(f"status {status}", str(count))
        if self.lost:
            shown.add_row("not judged", str(len(self.lost)))
        return shown
