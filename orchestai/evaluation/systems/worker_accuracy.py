"""What each worker's logged attempts were worth, for baselines that count."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from orchestai.execution.record import ExecutionRecord
from orchestai.execution.result import Attempt
from orchestai.execution.reward import RewardForm


@dataclass(frozen=True)
class Trial:
    """One worker's attempt at one subtask.

    Attributes:
        first: whether the worker was asked first; fallbacks see only what others failed at.
        value: `alpha` for an answer that passed in an execution that succeeded, else 0; less what the execution lost to
            the attempt's cost and latency, compared with one in which it had been free and immediate. That other steps
            fail, too, averages out: who was at fault is not guessed.
    """

    worker: str
    task_type: str
    instruction: str
    first: bool
    value: float


def trials(records: Sequence[ExecutionRecord], reward: RewardForm) -> list[Trial]:
    """All logged attempts of the executions that were judged."""
    return [
        Trial(attempt.worker, subtask.task_type, subtask.instruction, i == 0, _value(attempt, record, reward))
        for record in records
        if record.outcome == "scored"
        for subtask in record.subtasks
        for i, attempt in enumerate(subtask.attempts)
    ]


def _value(attempt: Attempt, record: ExecutionRecord, reward: RewardForm) -> float:
    right = record.success and attempt.error is None and attempt.passed_check is not False
    cost = reward.cost(record.cost) - reward.cost(max(record.cost - attempt.cost_usd, 0.0))
    latency = reward.latency(record.latency_ms) - reward.latency(max(record.latency_ms - attempt.latency_ms, 0.0))
    return reward.alpha * right - cost - latency
