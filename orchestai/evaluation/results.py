"""What one way of solving gave on each task."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from orchestai.evaluation.metrics import Values
from orchestai.workflow import Workflow


@dataclass(frozen=True)
class Result:
    """What one plan gave on one task.

    Attributes:
        success: 1 where all hidden tests passed, else 0; NaN where the execution is unscorable, like all that follow.
        reward: phase 2's reward.
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
class Row:
    """One way of solving the tasks, with its result on each."""

    name: str
    results: tuple[Result, ...]

    def values(self, field: str) -> Values:
        """(n,) array of a numeric field of `Result`."""
        return np.array([getattr(result, field) for result in self.results], dtype=np.float64)

    @property
    def unscorable(self) -> int:
        return sum(bool(result.reason) for result in self.results)
