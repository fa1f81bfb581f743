"""Which worker is right how often, inferred from logged executions whose failures name no culprit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from orchestai.estimate.culprits import infer_right
from orchestai.execution.record import ExecutionRecord
from orchestai.execution.result import Attempt
from orchestai.execution.reward import RewardForm


@dataclass(frozen=True)
class Trial:
    """One worker's attempt at one subtask.

    Attributes:
        first: whether the worker was asked first; fallbacks see only what others failed at.
        right: probability that the answer was right.
        value: expected contribution to the reward: `alpha * right`, less what its execution lost to its cost and its
            latency, compared with one in which it had been free and immediate.
    """

    worker: str
    task_type: str
    instruction: str
    first: bool
    right: float
    value: float


@dataclass(frozen=True)
class _Attempted:
    attempt: Attempt
    task_type: str
    instruction: str
    first: bool
    execution: int


def trials(records: Sequence[ExecutionRecord], reward: RewardForm) -> list[Trial]:
    """All logged attempts of the executions that were judged.

    An attempt that failed its check or gave an error was wrong; the answers that made up a successful execution were
    right. In a failed execution every answer that passed its check is a suspect: see `infer_right`.
    """
    judged = [record for record in records if record.outcome == "scored" and record.subtasks]
    attempted = [
        _Attempted(attempt, subtask.task_type, subtask.instruction, i == 0, execution)
        for execution, record in enumerate(judged)
        for subtask in record.subtasks
        for i, attempt in enumerate(subtask.attempts)
    ]
    if not attempted:
        return []
    cells: dict[tuple[str, str], int] = {}
    right = infer_right(
        cell=np.array([cells.setdefault((a.attempt.worker, a.task_type), len(cells)) for a in attempted]),
        execution=np.array([a.execution for a in attempted]),
        suspect=np.array([_may_be_right(a.attempt) for a in attempted]),
        succeeded=np.array([record.success for record in judged]),
        complete=np.array([all(any(map(_may_be_right, s.attempts)) for s in record.subtasks) for record in judged]),
    )
    return [
        Trial(
            a.attempt.worker,
            a.task_type,
            a.instruction,
            a.first,
            float(p),
            reward.alpha * float(p) - _price(a.attempt, judged[a.execution], reward),
        )
        for a, p in zip(attempted, right, strict=True)
    ]


def _may_be_right(attempt: Attempt) -> bool:
    return attempt.error is None and attempt.passed_check is not False


def _price(attempt: Attempt, record: ExecutionRecord, reward: RewardForm) -> float:
    cost = reward.cost(record.cost) - reward.cost(max(record.cost - attempt.cost_usd, 0.0))
    latency = reward.latency(record.latency_ms) - reward.latency(max(record.latency_ms - attempt.latency_ms, 0.0))
    return cost + latency
