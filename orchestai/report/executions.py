"""Execution logs as rows of a list, with their details in chunks."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from orchestai.errors import first_problem
from orchestai.execution.record import SCHEMA_VERSION, ExecutionRecord
from orchestai.report.chunks import ChunkWriter
from orchestai.report.sources import Feedback, ServedFeedback, complain, whole_lines

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


MOST_EXECUTIONS: Final = 100_000
"""More rows than this a browser cannot search while somebody types."""
SEARCHED: Final = 1_000
"""Characters of an instruction in its row, where the page searches; its details hold the rest."""
_DETAILS: Final = {
    *("timestamp", "suite", "split", "scorer", "sandbox", "tests_passed", "tests_total"),
    *("error", "answer", "receipt", "subtasks"),
}
"""Of a record, what the page shows beside what the row says."""
_SAID: Final = {
    "score": "scored by its user",
    "answer": "its user gave the right answer",
    "tests": "its user gave tests",
}
COLUMNS: Final = (
    "run",
    "task",
    "planner",
    "outcome",
    "reason",
    "score",
    "reward",
    "cost",
    "latency",
    "steps",
    "escalations",
    "workers",
    "text",
    "reference",
    "chunk",
    "place",
)
"""Of a row; `workers` are indices into `Executions.workers`, `reference` is the row of the task's reference plan."""


@dataclass
class Executions:
    """Rows of all logs, and what was counted on the way.

    Attributes:
        rows: as `COLUMNS` says.
        workers: names, by index.
        counts: of outcomes, by run.
        left_out: executions beyond `MOST_EXECUTIONS`.
    """

    chunks: ChunkWriter
    feedback: ServedFeedback
    rows: list[list[Any]] = field(default_factory=list)
    workers: dict[str, int] = field(default_factory=dict)
    counts: dict[int, Counter[str]] = field(default_factory=dict)
    spent: dict[int, float] = field(default_factory=dict)
    references: dict[str, int] = field(default_factory=dict)
    choices: WorkerChoices = field(default_factory=WorkerChoices)
    left_out: int = 0

    def read(self, run: int, file: Path, problems: list[str]) -> None:
        """Add all executions of a log; lines that are none are `problems`."""
        for where, value in whole_lines(file, problems):
            self._add(run, where, value, problems)

    def finish(self) -> None:
        """Name each row's reference plan, once all logs were read."""
        task, reference = COLUMNS.index("task"), COLUMNS.index("reference")
        for number, row in enumerate(self.rows):
            known = self.references.get(row[task])
            row[reference] = None if known == number else known

    def _add(self, run: int, where: str, value: Any, problems: list[str]) -> None:
        version = value.get("schema_version") if isinstance(value, dict) else None
        if isinstance(version, int) and version > SCHEMA_VERSION:
            return complain(problems, f"{where}: written by a newer version (schema_version {version}); skipped")
        try:
            record = ExecutionRecord.model_validate(value)
        except ValidationError as error:
            return complain(problems, f"{where}: not an execution: {first_problem(error)}; skipped")
        said = self.feedback.of(run, record, problems)
        self.counts.setdefault(run, Counter())[outcome_of(record, said)] += 1
        self.spent[run] = self.spent.get(run, 0.0) + record.cost
        self.choices.note(record)
        if len(self.rows) >= MOST_EXECUTIONS:
            self.left_out += 1
            return None
        if record.task_id and record.subtasks and record.planner.startswith(("reference", "oracle")):
            self.references.setdefault(record.task_id, len(self.rows))
        self.rows.append(self._row(run, record, said))
        return None

    def _row(self, run: int, record: ExecutionRecord, said: Feedback | None) -> list[Any]:
        asked = dict.fromkeys(attempt.worker for subtask in record.subtasks for attempt in subtask.attempts)
        # What is shown of one execution, but for what its row and its attempts say already
        shown = record.model_dump(mode="json", include=_DETAILS, exclude={"subtasks": {"__all__": {"span"}}})
        shown["rest"] = record.instruction[SEARCHED:]
        if not record.subtasks:
            shown["outputs"] = record.execution_result.model_dump(mode="json")["outputs"]
            shown["adjacency"] = record.planner_outputs.workflow_graph.adjacency
        chunk, place = self.chunks.add(_sparse(shown | {"feedback": said}))
        return [
            run,
            record.task_id,
            record.planner,
            outcome_of(record, said),
            reason_of(record, said),
            said.get("score") if said else record.score,
            _rounded(record.reward),
            _rounded(record.cost),
            _rounded(record.latency_ms),
            len(record.subtasks) or len(record.planner_outputs.model_selections),
            sum(max(len(subtask.attempts) - 1, 0) for subtask in record.subtasks),
            [self.workers.setdefault(worker, len(self.workers)) for worker in asked],
            record.instruction[:SEARCHED],
            None,
            chunk,
            place,
        ]


def outcome_of(record: ExecutionRecord, said: Feedback | None = None) -> str:
    """`solved`, `failed`, `invalid` (no plan), `unscorable`, or of runs for people `answered` or `unanswered`.

    Args:
        said: of a served run; one that somebody scored is `solved` or `failed`.
    """
    if record.outcome == "unscorable":
        return "unscorable"
    if record.outcome == "unjudged":
        if said is not None and said.get("score") is not None:
            return "solved" if said["score"] == 1 else "failed"
        return "unanswered" if record.receipt is not None and record.receipt.status == "failed" else "answered"
    if record.success:
        return "solved"
    return "invalid" if (record.error or "").startswith("no valid plan") else "failed"


def reason_of(record: ExecutionRecord, said: Feedback | None = None) -> str:
    """Why it is not solved, or who judged a served run, in one of a few words to filter by; else empty."""
    outcome = outcome_of(record, said)
    if said is not None:
        return next((words for kind, words in _SAID.items() if said.get(kind) is not None), "")
    if outcome in ("solved", "answered", "invalid"):
        return {"invalid": "no valid plan"}.get(outcome, "")
    if outcome == "unscorable":
        return record.fault or "unknown fault"
    if any(subtask.status != "done" for subtask in record.subtasks):
        return "a step without an answer"
    if any(subtask.passed_check is False for subtask in record.subtasks):
        return "a step failed its check"
    return "all checks passed, the tests did not" if outcome == "failed" else "no answer"


def _sparse(value: Any) -> Any:
    """Without what is empty, and numbers in six digits."""
    if isinstance(value, dict):
        kept = {key: _sparse(item) for key, item in value.items()}
        return {key: item for key, item in kept.items() if key == "depends_on" or item not in (None, "", [], {})}
    if isinstance(value, list | tuple):
        return [_sparse(item) for item in value]
    return _rounded(value) if isinstance(value, float) else value


def _rounded(value: float | None) -> float | None:
    return None if value is None else float(f"{value:.6g}")


def totals(executions: Executions, runs: Sequence[str]) -> list[dict[str, Any]]:
    """Per run with executions: how many of each outcome, what they cost together, and users' scores."""
    return [
        {
            "run": run,
            "name": runs[run],
            "counts": dict(counts),
            "spent": _rounded(executions.spent[run]),
            "scores": executions.feedback.scores.get(run, []),
        }
        for run, counts in sorted(executions.counts.items())
    ]
