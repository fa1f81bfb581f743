"""What planners take and give. A planner turns tasks into plans; a trainable one says how likely each choice was."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, Protocol, TypeAlias

from orchestai.outcome import Unscorable
from orchestai.planner.language.tokens import TokenDecisions
from orchestai.tasks.task import Task
from orchestai.workers.base import Usage
from orchestai.workflow import Workflow

if TYPE_CHECKING:
    from torch import Tensor

DecisionKind: TypeAlias = Literal["stop", "span", "type", "worker", "fallback", "edge"]
"""What can be decided: to go on or stop, a subtask's words, its type, worker and fallbacks, and who needs whom."""


@dataclass(frozen=True, eq=False)
class Decisions:
    """Everything that was decided for one plan of n subtasks. Small CPU tensors.

    Attributes:
        length: n, at least 1.
        spans: (n, 2) int64; first and last token of each subtask's words, both inclusive.
        types: (n,) int64; indices into `planner.task_types`.
        workers: (n,) int64; indices into the pool of W workers.
        fallbacks: (n, F) int64; indices into the pool, W meaning none (and then none follows).
        edges: (n, n) bool; entry [i, j] says that subtask j depends on subtask i. As chosen, before repair.
    """

    length: int
    spans: Tensor
    types: Tensor
    workers: Tensor
    fallbacks: Tensor
    edges: Tensor


AnyDecisions: TypeAlias = Decisions | TokenDecisions
"""What was decided for one plan: by the heads of `PlannerModel`, or token by token by a language model."""


@dataclass(frozen=True, eq=False)
class Plan:
    """A planner's answer to one task.

    Attributes:
        workflow: None where there is no valid plan; `error` then says why.
        raw_valid: whether the edges were acyclic before repair; of a plan as text, whether it was whole and valid as
            it was written.
        decisions: what was chosen, for learning; None from planners that do not learn.
        logp: (slots,) float32; log-probability of each decision when it was made, at the sampling temperature; 0 where
            a decision was not sampled. None where nothing was sampled.
        error: why there is no workflow.
        fault: the same where that is nobody's fault: then the plan is no failure, and the execution unscorable.
        usage: what was asked of models, and paid, to make the plan; None where the planner computes for itself.
        text: the plan as it was written, where it was written as text.
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


@dataclass(frozen=True)
class SampleSpec:
    """How plans are sampled.

    Attributes:
        explore: kinds of decision that are sampled; the others are taken greedily.
        temperature: divides the logits of sampled decisions.
        seeds: one per task, so that a sample depends neither on the rest of its batch nor on the process.
    """

    explore: frozenset[DecisionKind]
    temperature: float
    seeds: Sequence[int]


@dataclass(frozen=True, eq=False)
class Scores:
    """What a trainable planner thinks of given decisions; every tensor is (rows, slots).

    For `Decisions` the slots are, for each of `max_subtasks` steps: stop, start, end, type, worker, and each fallback;
    then all ordered pairs of steps [i, j], row by row, whatever the batch. For `TokenDecisions` they are the tokens of
    the completion, as many as the longest row of the batch has.

    Attributes:
        logp: log-probability of the decision, 0 where `mask` is False. With gradient.
        entropy: of the distribution that it was drawn from, 0 where `mask` is False. With gradient.
        value: expected return before the decision, for PPO; 0 where `mask` is False. With gradient.
        mask: bool; the explored decisions that exist. A decision without alternatives is none.
        step: (slots,) int64; the step that a slot decides about, -1 for pairs and tokens.
    """

    logp: Tensor
    entropy: Tensor
    value: Tensor
    mask: Tensor
    step: Tensor


class Planner(Protocol):
    """Anything that plans. Plans come in the order of the tasks."""

    def plan(self, tasks: Sequence[Task]) -> list[Plan]: ...


class TrainablePlanner(Planner, Protocol):
    """A planner that reinforcement learning can improve."""

    def plan(self, tasks: Sequence[Task], *, sample: SampleSpec | None = None) -> list[Plan]:
        """Plan greedily, or sample as `sample` says; without dropout and without gradient."""
        ...

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
