"""What one way of solving gave on each task."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from orchestai.evaluation.statistics import Values
from orchestai.execution.reward import invalid_reward
from orchestai.workflow import Workflow


@dataclass(frozen=True)
class Result:
    """What one plan gave on one task.

    Attributes:
        success: 1 for the full score, else 0; NaN where the execution is unscorable, like all that follow.
        reward: phase 2's reward; of an invalid plan less than of any valid one (`rank_invalid`).
        cost_usd, latency_ms: of the plan and its execution.
        raw_valid: whether the plan was a DAG before repair.
        workflow: None where the planner gave no valid plan, which counts as a failure that costs what planning did.
        reason: why the execution is unscorable; empty if it is not.
    """

    success: float
    reward: float
    cost_usd: float
    latency_ms: float
    raw_valid: bool
    workflow: Workflow | None
    reason: str = ""


@dataclass(frozen=True)
class SystemRow:
    """One way of solving the tasks, with its result on each."""

    name: str
    results: tuple[Result, ...]

    def values(self, field: str) -> Values:
        """(n,) array of a numeric field of `Result`."""
        return np.array([getattr(result, field) for result in self.results], dtype=np.float64)

    @property
    def unscorable(self) -> int:
        return sum(bool(result.reason) for result in self.results)


def rank_invalid(rows: Sequence[SystemRow], margin: float) -> list[SystemRow]:
    """The rows, in which a plan that is invalid is worth less than all valid ones for the same task.

    Args:
        margin: by how much less at least.
    """
    per_task = []
    for results in zip(*(row.results for row in rows), strict=True):
        valid = [result.reward for result in results if result.workflow is not None and not math.isnan(result.reward)]
        per_task.append(
            [
                replace(result, reward=invalid_reward(result.reward, margin, valid))
                if result.workflow is None
                else result
                for result in results
            ]
        )
    return [SystemRow(row.name, tuple(results)) for row, results in zip(rows, zip(*per_task, strict=True), strict=True)]
