"""Who was asked first for a step, against the cheapest worker who is known to have solved it."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any, Final

from orchestai.execution.record import ExecutionRecord

NOBODY: Final = "nobody"
_MOST_STEPS = 200_000


@dataclass
class WorkerChoices:
    """Steps with a visible check, over all executions.

    The best worker of a step is the one of the lowest mean cost among those whose answer passed the step's check in any
    execution; `nobody` where none did. To pass the visible check is no proof, but all that a log says of a step.
    """

    _first: dict[tuple[str, str], Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    _passed: dict[tuple[str, str], set[str]] = field(default_factory=lambda: defaultdict(set))
    _cost: dict[str, list[float]] = field(default_factory=lambda: defaultdict(lambda: [0.0, 0.0]))

    def note(self, record: ExecutionRecord) -> None:
        """Count the steps of one execution."""
        for subtask in record.subtasks:
            step = record.task_id, subtask.instruction
            for attempt in subtask.attempts:
                spent = self._cost[attempt.worker]
                spent[0] += attempt.cost_usd
                spent[1] += 1
            checked = any(attempt.passed_check is not None for attempt in subtask.attempts)
            if checked and (step in self._first or len(self._first) < _MOST_STEPS):
                self._first[step][subtask.attempts[0].worker] += 1
                self._passed[step] |= {a.worker for a in subtask.attempts if a.passed_check}

    def table(self) -> dict[str, Any] | None:
        """`counts[i][j]` of steps where `workers[i]` was asked first and `best[j]` is best; None without any step."""
        if not self._first:
            return None
        mean = {worker: cost / count for worker, (cost, count) in self._cost.items()}
        counts: Counter[tuple[str, str]] = Counter()
        for step, asked in self._first.items():
            best = min(sorted(self._passed[step]), key=mean.__getitem__, default=NOBODY)
            for worker, times in asked.items():
                counts[worker, best] += times
        workers = sorted(
            {worker for worker, _ in counts} | {best for _, best in counts} - {NOBODY}, key=mean.__getitem__
        )
        best_of = [*workers, NOBODY]
        return {
            "workers": workers,
            "best": best_of,
            "counts": [[counts[worker, best] for best in best_of] for worker in workers],
        }
