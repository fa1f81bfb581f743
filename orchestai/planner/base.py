"""What planners take and give. A planner turns tasks into plans; a trainable one says how likely each choice was."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from orchestai.outcome import Unscorable
from orchestai.tasks.task import Task
from orchestai.workers.base import Usage
from orchestai.workflow import Workflow

if TYPE_CHECKING:
    from torch import Tensor

    from orchestai.types import AnyDecisions, DecisionKind, SampleSpec, Scores


@dataclass(frozen=True, eq=False)
class Plan:
    """A planner's answer to one task.

    Attributes:
        workflow: None where there is no valid plan; `error` then says why.
        raw_valid: whether the edges were acyclic before repair; of a plan as text, whether it was whole and valid as
            it was written. A plan in which a step stands twice, or has no words, is not.
        decisions: what was chosen, for learning; None from planners that do not learn.
        logp: (slots,) float32; log-probability of each decision when it was made, at the sampling temperature; 0 where
            a decision was not sampled. None where nothing was sampled.
        error: why there is no workflow.
        fault: the same where that is nobody's fault: then the plan is no failure, and the execution unscorable.
        usage: what was asked of models, and paid, to make the plan; None where the planner computes for itself.
        text: the plan as it was written, where it was written as text.
        decomposed_by: who split a task for which nobody knows a reference decomposition, where another planner gave the
            workers.
        confidence: the chance in [0, 1] that steps and edges are right; None where nobody knows.
        planned_by: who made it in place of a planner that was not sure enough; empty where it was sure.
        truncated: of a plan as text, whether the sampler cut it off before it ended.
    """

    workflow: Workflow | None
    raw_valid: bool
    decisions: AnyDecisions | None = None
    logp: Tensor | None = None
    error: str = ""
    fault: Unscorable | None = None
    usage: Usage | None = None
    truncated: bool = False
    text: str = ""
    decomposed_by: str = ""
    confidence: float | None = None
    planned_by: str = ""


class Planner(Protocol):
    """Anything that plans. Plans come in the order of the tasks."""

    def plan(self, tasks: Sequence[Task]) -> list[Plan]: ...


class DecisionScorer(Protocol):
    """Anything that says how likely its decisions were."""

    def score(
        self,
        tasks: Sequence[Task],
        decisions: Sequence[AnyDecisions],
        *,
        explore: frozenset[DecisionKind],
        temperature: float,
    ) -> Scores:
        """Log-probabilities of `decisions` under the current weights; equal to `Plan.logp` under the same weights."""
        ...


class TrainablePlanner(Planner, DecisionScorer, Protocol):
    """A planner that reinforcement learning can improve."""

    def plan(self, tasks: Sequence[Task], *, sample: SampleSpec | None = None) -> list[Plan]:
        """Plan greedily, or sample as `sample` says; without dropout and without gradient."""
        ...
