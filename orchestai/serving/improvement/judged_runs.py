"""Served runs as executions that were judged: what people said of the answers is their outcome."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from orchestai.answering import AS_GIVEN
from orchestai.config import TasksConfig
from orchestai.execution.record import ExecutionRecord
from orchestai.outcome import Outcome, Scored, Unscorable
from orchestai.rewards.scorers import judge
from orchestai.sandbox import Sandbox
from orchestai.serving.store import Feedback
from orchestai.tasks.code.assertions import as_test_case
from orchestai.tasks.records import has_tests
from orchestai.tasks.splits import divide, task_hash
from orchestai.tasks.task import UNIT_TESTS, Task
from orchestai.text.syntax import parse_python

SUITE = "served"
_TOGETHER = 32


@dataclass(frozen=True)
class JudgedRuns:
    """What can be learned from served runs.

    Attributes:
        records: their lines of the log, now with outcomes; one per run, in the parts of `tasks.*_fraction`.
        tasks: what was asked, once each, where other answers can be judged too: by tests, or by the right answer, and
            the instruction is all that workers read.
        left_out: reason -> number of runs.
    """

    records: list[ExecutionRecord] = field(default_factory=list)
    tasks: list[Task] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)

    def part(self, name: str) -> list[Task]:
        return [task for task in self.tasks if task.split == name]


async def judged_runs(
    records: Iterable[ExecutionRecord], said: Mapping[str, Feedback], settings: TasksConfig, sandbox: Sandbox
) -> JudgedRuns:
    """Join the lines of the log with feedback.

    A score is taken as it was given; else the answer is judged by the tests, or compared with the right one.

    Args:
        said: by run id.
    """
    found = JudgedRuns()
    served = _served(records, said, found.left_out)
    parts = divide([record.instruction for record, _ in served], settings)
    tasks: dict[str, Task] = {}
    slots = asyncio.Semaphore(_TOGETHER)

    async def outcome_of(record: ExecutionRecord, feedback: Feedback, task: Task | None) -> Outcome:
        if feedback.score is not None or task is None:
            return Scored(feedback.score or 0.0)
        async with slots:
            return (await judge(task, record.answer, sandbox)).outcome

    judging = []
    for (record, feedback), part in zip(served, parts, strict=True):
        try:
            task = task_of(record.instruction, feedback, part, settings)
        except (SyntaxError, ValueError) as error:
            found.left_out[f"its tests cannot be read: {type(error).__name__}"] += 1
            continue
        if task is not None and not record.in_dialogue:
            tasks[task.task_id] = task
        judging.append((record, part, outcome_of(record, feedback, task)))
    outcomes = await asyncio.gather(*(outcome for *_, outcome in judging))
    for (record, part, _), outcome in zip(judging, outcomes, strict=True):
        if isinstance(outcome, Unscorable):
            found.left_out["its answer could not be judged"] += 1
        else:
            found.records.append(_judged(record, part, outcome.value))
    found.tasks.extend(tasks.values())
    return found


def task_of(instruction: str, feedback: Feedback, part: str, settings: TasksConfig) -> Task | None:
    """What was asked, with what judges answers to it; None where only this one answer was scored.

    Raises:
        SyntaxError, ValueError: the tests cannot be read.
    """
    about: dict[str, Any] = {"suite": SUITE, "split": part, "instruct_prompt": instruction}
    if feedback.tests:
        source = feedback.tests
        tests = source if has_tests(source) else as_test_case(parse_python(source).body)
        return Task(task_id=task_hash(instruction), scorer=UNIT_TESTS, test=tests, **about)
    if feedback.answer:
        scorer = "" if settings.scorer == UNIT_TESTS else settings.scorer
        return Task(task_id=task_hash(instruction), answers=(feedback.answer,), scorer=scorer, **about)
    return None


def _served(
    records: Iterable[ExecutionRecord], said: Mapping[str, Feedback], left_out: Counter[str]
) -> list[tuple[ExecutionRecord, Feedback]]:
    """Runs of planners that ended, with feedback."""
    kept: list[tuple[ExecutionRecord, Feedback]] = []
    without_line = set(said)
    for record in records:
        if record.outcome != "unjudged" or record.receipt is None:
            continue
        without_line.discard(record.receipt.run_id)
        feedback = said.get(record.receipt.run_id)
        if feedback is None:
            left_out["nobody said anything of it"] += 1
        elif feedback.score is None and not (feedback.answer or feedback.tests):
            left_out["what was said of it was not kept (serving.redact)"] += 1
        elif not record.instruction:
            left_out["its words are not in the log (--log metadata)"] += 1
        elif record.receipt.planner == AS_GIVEN:
            left_out["it resumed a step of another run"] += 1
        elif any(attempt.tool_calls for subtask in record.subtasks for attempt in subtask.attempts):
            left_out["it called a client's tool before it answered"] += 1
        elif not record.subtasks or record.receipt.status == "partial":
            left_out["it was interrupted"] += 1
        else:
            kept.append((record, feedback))
    if without_line:
        left_out["it has no line in this log"] = len(without_line)
    return kept


def _judged(record: ExecutionRecord, part: str, score: float) -> ExecutionRecord:
    return record.model_copy(
        update={
            "suite": SUITE,
            "task_id": task_hash(record.instruction),
            "split": part,
            "outcome": "scored",
            "success": score >= 1,
            "score": score,
        }
    )


def collected(records: Sequence[ExecutionRecord]) -> list[ExecutionRecord]:
    """The lines of a log that were judged when they were written."""
    return [record for record in records if record.outcome == "scored"]
