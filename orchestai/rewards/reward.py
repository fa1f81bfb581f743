"""The reward of an execution: success, less its cost and latency, plus what its subtasks achieved."""

from __future__ import annotations

from typing import Protocol

from orchestai.config import Phase2Config, RewardsConfig
from orchestai.execution.result import Execution
from orchestai.outcome import Outcome, Scored, Unscorable

REWARD_PARTS = ("reward_success", "reward_cost", "reward_latency", "reward_checks")


class Judged(Protocol):
    """What the reward reads of an `Execution`."""

    @property
    def outcome(self) -> Outcome: ...
    @property
    def total_cost(self) -> float: ...
    @property
    def total_latency_ms(self) -> float: ...
    @property
    def checks_passed(self) -> int: ...


def step_rewards(execution: Execution, weights: Phase2Config, rewards: RewardsConfig) -> list[float]:
    """The part of `reward` that each subtask earned alone: its check and, unless gated by success, its cost."""
    beta = 0.0 if rewards.gate_costs else weights.beta
    return [weights.shaped_reward * (r.passed_check is True) - beta * r.cost_usd for r in execution.results]


def reward(execution: Judged, weights: Phase2Config, rewards: RewardsConfig) -> Outcome:
    """`alpha * success - beta * cost_usd - gamma_latency * latency_ms + shaped_reward * checks_passed`.

    Success is the fraction of hidden tests passed, or with `rewards.success: all` 1 only if all passed. With
    `rewards.gate_costs` the cost and latency terms are multiplied by success, so that failing cheaply never beats
    succeeding dearly. An execution that could not be judged has no reward: its Unscorable is returned as it is.
    """
    if isinstance(execution.outcome, Unscorable):
        return execution.outcome
    return Scored(sum(reward_parts(execution, weights, rewards).values()))


def reward_parts(execution: Judged, weights: Phase2Config, rewards: RewardsConfig) -> dict[str, float]:
    """The terms that `reward` is the sum of, by the names `REWARD_PARTS`; none where there is no reward."""
    if isinstance(execution.outcome, Unscorable):
        return {}
    fraction = execution.outcome.value
    success = fraction if rewards.success == "fraction" else float(fraction >= 1.0)
    gate = success if rewards.gate_costs else 1.0
    parts = (
        weights.alpha * success,
        -gate * weights.beta * execution.total_cost,
        -gate * weights.gamma_latency * execution.total_latency_ms,
        weights.shaped_reward * execution.checks_passed,
    )
    return dict(zip(REWARD_PARTS, parts, strict=True))
