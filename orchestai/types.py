"""The shapes that cross packages: decisions of one plan, their scores, and episodes of turns that learning is from."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, TypeAlias, TypedDict

from orchestai.outcome import Outcome, Reward, Scored, Unscorable

if TYPE_CHECKING:
    from torch import Tensor

Speaker: TypeAlias = Literal["system", "user", "assistant", "tool"]


class Message(TypedDict):
    """One message of a chat, as chat templates read it."""

    role: Speaker
    content: str


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


@dataclass(frozen=True, eq=False)
class TokenDecisions:
    """A prompt and what was written after it, as int64 CPU tensors (tokens,); never text, which tokenizes differently.

    The end-of-sequence token is part of the completion where it was sampled.
    """

    prompt: Tensor
    completion: Tensor


AnyDecisions: TypeAlias = Decisions | TokenDecisions
"""What was decided for one plan: by the heads of `PlannerModel`, or token by token by a language model."""


@dataclass(frozen=True)
class SampleSpec:
    """Which kinds of decision are sampled (the others are taken greedily), how freely, and with which seed per task.

    So a sample depends neither on the rest of its batch nor on the process.
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


@dataclass(frozen=True, eq=False)
class Turn:
    """One act: decisions, and what the policy that made them thought of them. Every tensor is (slots,) on the CPU.

    Attributes:
        logp: log-probability of each decision under the policy that learns, when it was sampled.
        mask: bool; the slots that exist and were explored.
        value: the expected return before each decision, for PPO.
        step: int64; the step of the plan that each decision is about, -1 if about several.
        policy_version: optimizer steps taken before the act.
        sampler_logp: log-probability under whatever drew the decision; None where that is `logp`.
        reward: this act's own reward, where it has one.
        group: acts with the same one are compared with each other by the rules of credit that ask for it; empty where
            nobody said.
        truncated: whether the sampler cut the act off before it ended.
        text: what was decided, for people; empty where it is no text.
        token_limit: most tokens that it might have; None where decisions are not tokens.
    """

    decisions: AnyDecisions
    logp: Tensor
    mask: Tensor
    value: Tensor
    step: Tensor
    policy_version: int
    sampler_logp: Tensor | None = None
    reward: float | None = None
    group: str = ""
    truncated: bool = False
    token_limit: int | None = None
    text: str = ""

    def __post_init__(self) -> None:
        import torch

        shapes = {"logp": self.logp.shape, "mask": self.mask.shape, "value": self.value.shape, "step": self.step.shape}
        if self.sampler_logp is not None:
            shapes["sampler_logp"] = self.sampler_logp.shape
        if self.logp.dim() != 1 or len(set(shapes.values())) != 1:
            raise ValueError(f"a turn's tensors must be (slots,) of one length, not {shapes}")
        if self.mask.dtype != torch.bool:
            raise ValueError(f"a turn's mask must be bool, not {self.mask.dtype}")
        drawn = self.logp if self.sampler_logp is None else self.logp + self.sampler_logp
        if not torch.isfinite(drawn[self.mask]).all():
            raise ValueError("a sampled decision has no finite log-probability; the planner's weights may be broken")
        if self.reward is not None and not math.isfinite(self.reward):
            raise ValueError(f"reward of a turn is {self.reward}")


@dataclass(frozen=True, eq=False)
class Trajectory:
    """What one role did in an episode.

    Attributes:
        policy: name of the weights that acted, and that learn from it where they are `trainable`.
        turns: in order of time; empty where the role does not learn.
        reward: this role's own reward, where it has another than the episode.
        transcript: (speaker, words) pairs, for people; empty where nobody kept them.
    """

    role: str
    policy: str
    turns: tuple[Turn, ...]
    reward: float | None = None
    trainable: bool = True
    transcript: tuple[tuple[str, str], ...] = ()

    def __post_init__(self) -> None:
        if self.reward is not None and not math.isfinite(self.reward):
            raise ValueError(f"reward of role {self.role!r} is {self.reward}")


@dataclass(frozen=True, eq=False)
class Episode:
    """One attempt at a task.

    Attributes:
        group_id: episodes with the same one are compared with each other.
        reward: what it earned, or why there is none; without one, the episode is in neither baseline nor loss.
        metrics: figures of its executions (`success`, `cost_usd`, `latency_ms`, ...); empty where nothing ran.
        valid, raw_valid: whether there was a plan to execute, and whether it was a DAG before repair.
        text, answer: the plan, for people, and what answers the task, where the attempt came so far.
    """

    task_id: str
    group_id: str
    trajectories: tuple[Trajectory, ...]
    reward: Reward | Unscorable
    metrics: Mapping[str, float] = field(default_factory=dict)
    valid: bool = True
    raw_valid: bool = True
    text: str = ""
    answer: str = ""

    def __post_init__(self) -> None:
        if isinstance(self.reward, Unscorable):
            return
        for name, (value, _) in self.reward.parts.items():
            if not math.isfinite(value):
                raise ValueError(f"reward {name!r} of task {self.task_id!r} is {value}; leave it out, or fix it")
        if not math.isfinite(self.reward.total):
            raise ValueError(
                f"reward of task {self.task_id!r} is {self.reward.total}; make it Unscorable, or fix the reward"
            )

    @property
    def outcome(self) -> Outcome:
        """The total of the reward, or why there is none."""
        return self.reward if isinstance(self.reward, Unscorable) else Scored(self.reward.total)

    @property
    def turns(self) -> tuple[Turn, ...]:
        """The turns of all its trajectories."""
        return tuple(turn for trajectory in self.trajectories for turn in trajectory.turns)
