"""What happened: an episode holds what each role did (trajectories), and a trajectory what it decided (turns)."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

import torch
from torch import Tensor

from orchestai.outcome import Outcome, Scored
from orchestai.planner.base import AnyDecisions
from orchestai.rewards.reward import invalid_reward


@dataclass(frozen=True, eq=False)
class Turn:
    """One act: decisions, and what the policy that made them thought of them. Every tensor is (slots,) on the CPU.

    Attributes:
        logp: log-probability of each decision under the policy that learns, when it was sampled.
        mask: bool; the slots that exist and were explored.
        value: the expected return before each decision, for PPO.
        step: int64; the step of the plan that each decision is about, -1 if about several.
        policy_version: optimiser steps taken before the act.
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


@dataclass(frozen=True)
class StepResult:
    """What became of one step of a plan.

    Attributes:
        reward: the part of the episode's reward that the step earned alone.
        failed: whether it had no answer, or none that passed its visible check.
    """

    reward: float
    failed: bool


@dataclass(frozen=True, eq=False)
class Trajectory:
    """What one role did in an episode.

    Attributes:
        role: e.g. `planner`.
        policy: name of the weights that acted, and that learn from it.
        turns: in order of time; empty where the role does not learn.
        reward: this role's own reward, where it has another than the episode.
        trainable: whether `policy` learns from it.
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


class NamedReward(NamedTuple):
    """One of several rewards of an episode, which is worth the sum of their values times their weights."""

    value: float
    weight: float = 1.0


@dataclass(frozen=True, eq=False)
class Episode:
    """One attempt at a task.

    Attributes:
        group_id: episodes with the same one are compared with each other.
        outcome: the reward, or why there is none; without one, the episode is in neither baseline nor loss.
        metrics: figures of its executions (`success`, `cost_usd`, `latency_ms`, ...); empty where nothing ran.
        rewards: what the outcome is the weighted sum of, by name; empty where it is one reward.
        steps: one result per step of the plan; empty where nothing ran.
        valid: whether there was a plan to execute.
        raw_valid: whether the plan was a DAG before repair.
        text: the plan, for people.
    """

    task_id: str
    group_id: str
    trajectories: tuple[Trajectory, ...]
    outcome: Outcome
    metrics: Mapping[str, float] = field(default_factory=dict)
    rewards: Mapping[str, NamedReward] = field(default_factory=dict)
    steps: tuple[StepResult, ...] = ()
    valid: bool = True
    raw_valid: bool = True
    text: str = ""

    def __post_init__(self) -> None:
        for name, reward in self.rewards.items():
            if not math.isfinite(reward.value):
                raise ValueError(f"reward {name!r} of task {self.task_id!r} is {reward.value}; leave it out, or fix it")
        if isinstance(self.outcome, Scored) and not math.isfinite(self.outcome.value):
            raise ValueError(
                f"reward of task {self.task_id!r} is {self.outcome.value}; make it Unscorable, or fix the reward"
            )

    @property
    def turns(self) -> tuple[Turn, ...]:
        """The turns of all its trajectories."""
        return tuple(turn for trajectory in self.trajectories for turn in trajectory.turns)


def rank_invalid(episodes: Sequence[Episode], margin: float) -> list[Episode]:
    """The episodes, compared with each other, of which those without a valid plan are worth less than all others.

    What is invalid costs nothing; worth 0, it would outrank what is valid, fails and costs something, and a planner
    would learn to write what cannot be executed.

    Args:
        margin: by how much less at least.
    """
    valid = [e.outcome.value for e in episodes if e.valid and isinstance(e.outcome, Scored)]
    ranked = []
    for episode in episodes:
        if not episode.valid and isinstance(episode.outcome, Scored):
            value = invalid_reward(episode.outcome.value, margin, valid)
            metrics = {**episode.metrics, "reward_invalid": value}
            episode = replace(episode, outcome=Scored(value), metrics=metrics)
        ranked.append(episode)
    return ranked
