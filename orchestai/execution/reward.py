"""The reward of an execution: success, less its cost and latency, plus what its subtasks and scorers of one's own gave.

It comes in two forms, `rewards.form`. Both rank what succeeded above what failed at the same price, and every invalid
plan below every valid one that it is compared with.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Literal

from orchestai.config import RewardsConfig
from orchestai.config.rl import RewardWeights
from orchestai.execution.result import JudgedExecution
from orchestai.outcome import Reward, RewardPart, StepReward, Unscorable
from orchestai.rewards.scorers import reward_name


@dataclass(frozen=True)
class Reference:
    """Typical cost and latency of one execution.

    Attributes:
        cost_usd, latency_ms: medians over the executions that cost something, and took some time; 0 where none did.
        source: where they were measured, for people.
    """

    cost_usd: float
    latency_ms: float
    source: str


def typical(runs: Iterable[tuple[float, float]], source: str) -> Reference | None:
    """The reference of (cost in US dollars, latency in milliseconds) pairs; None where there are none.

    What is free, or answers at once, is left out of the medians: it would say that nothing costs anything, where half
    of a pool are free tools.
    """
    pairs = list(runs)
    if not pairs:
        return None
    cost, latency = ([value for value in values if value > 0] for values in zip(*pairs, strict=True))
    return Reference(median(cost) if cost else 0.0, median(latency) if latency else 0.0, source)


def is_needed(config: RewardsConfig) -> bool:
    """Whether rewards depend on a reference that the configuration does not give in full."""
    return config.form != "absolute" and (
        (config.cost_weight > 0 and config.cost_reference_usd is None)
        or (config.latency_weight > 0 and config.latency_reference_ms is None)
    )


def settle(config: RewardsConfig, measured: Reference | None) -> Reference | None:
    """The measured reference, but for what the configuration sets; None where something is needed and not known."""
    if measured is None and is_needed(config):
        return None
    reference = measured or Reference(0.0, 0.0, "not measured")
    if config.cost_reference_usd is not None:
        source = f"rewards.cost_reference_usd; {reference.source}"
        reference = replace(reference, cost_usd=config.cost_reference_usd, source=source)
    if config.latency_reference_ms is not None:
        source = f"rewards.latency_reference_ms; {reference.source}"
        reference = replace(reference, latency_ms=config.latency_reference_ms, source=source)
    return reference


REWARD_PARTS = ("success", "cost", "latency", "checks", "invalid")
"""Names of the terms of an execution's reward, beside the user's own."""
REWARD_FIGURES = (*REWARD_PARTS, "std")
"""What follows `reward_` in the names of figures."""
INVALID_MARGIN = 0.1
"""By how much of a success the worst valid plan outranks an invalid one."""
_TELLING = 0.1
"""A term of the absolute form is warned of where a typical execution loses this share of a success to it."""


@dataclass(frozen=True)
class RewardForm(ABC):
    """Turns executions into rewards.

    Attributes:
        alpha: reward of a success.
        success: what counts as one, see `rewards.success`.
        reference: of a typical execution; None where nothing was measured and nothing has to be.
        named: weights of the user's own rewards, by name (`JudgedExecution.rewards`).
    """

    alpha: float
    success: Literal["fraction", "all"]
    reference: Reference | None
    named: Mapping[str, float] = field(default_factory=dict, kw_only=True)

    @abstractmethod
    def cost_part(self, usd: float) -> RewardPart:
        """The term of an execution's cost, at most 0."""

    @abstractmethod
    def latency_part(self, ms: float) -> RewardPart:
        """The term of an execution's latency, at most 0."""

    @abstractmethod
    def checks_part(self, passed: int, steps: int) -> RewardPart:
        """The term of passed checks in a plan of so many subtasks."""

    @property
    @abstractmethod
    def floor(self) -> float:
        """Reward of an invalid plan beside which no valid one did worse."""

    @abstractmethod
    def remarks(self) -> list[str]:
        """What a user should know before training: what is weighed how, and what is dangerous about it."""

    def cost(self, usd: float) -> float:
        """Reward lost to an execution's cost."""
        return -self.cost_part(usd).contribution

    def latency(self, ms: float) -> float:
        """Reward lost to an execution's latency."""
        return -self.latency_part(ms).contribution

    @property
    def margin(self) -> float:
        """Least distance of an invalid plan to the valid ones."""
        return invalid_margin(self.alpha)

    def of(self, execution: JudgedExecution) -> Reward | Unscorable:
        """The reward, or why there is none: what could not be judged keeps its reason."""
        if isinstance(execution.outcome, Unscorable):
            return execution.outcome
        if lacking := sorted(self.named.keys() - execution.rewards.keys()):
            return Unscorable("recording_missing", f"the execution was recorded without its reward {lacking[0]!r}")
        fraction, count = execution.outcome.value, len(execution.results)
        terms = (
            RewardPart(fraction if self.success == "fraction" else float(fraction >= 1.0), self.alpha),
            self.cost_part(execution.total_cost),
            self.latency_part(execution.total_latency_ms),
            self.checks_part(execution.checks_passed, count),
            RewardPart(0.0),
        )
        own = {name: RewardPart(execution.rewards[name], weight) for name, weight in self.named.items()}
        per_usd = self.cost(execution.total_cost) / execution.total_cost if execution.total_cost else 0.0
        per_check = self.checks_part(1, count).contribution
        steps = (
            StepReward(per_check * (result.passed_check is True) - per_usd * result.cost_usd, result.failed)
            for result in execution.results
        )
        return Reward.of({**dict(zip(REWARD_PARTS, terms, strict=True)), **own}, steps)

    def invalid(self) -> Reward:
        """The reward of a plan that could not be executed, as long as no valid one did worse (`invalid_reward`)."""
        floor = self.floor + sum(min(weight, 0.0) for weight in self.named.values())
        return Reward.of({**dict.fromkeys([*REWARD_PARTS, *self.named], RewardPart(0.0)), "invalid": RewardPart(floor)})

    def _remarks_on_named(self) -> list[str]:
        if not self.named:
            return []
        added = " + ".join(f"{weight:g} * {name}" for name, weight in self.named.items())
        found = [f"reward: beside that {added} (rewards.reward_weights, times training.phase2_rl.alpha)"]
        if sum(map(abs, self.named.values())) >= (self.alpha or 1.0):
            found.append(
                "warning: rewards.reward_weights together weigh as much as a success or more, so training may give up "
                "success for them; lower them to have success first"
            )
        return found


@dataclass(frozen=True)
class RelativeReward(RewardForm):
    """`alpha * (success - w_c c / (c + c_ref) - w_l l / (l + l_ref) + w_k * share of subtasks whose check passed)`.

    As c / (c + c_ref) is in [0, 1) and the weights add up to less than 1, no cost and no latency outweighs a success;
    and as it does not change with the unit of c, neither prices nor the speed of a pool have to be known beforehand.
    A term whose reference is 0 is left out: beside nothing, the least price would cost the whole weight.
    """

    reference: Reference
    cost_weight: float
    latency_weight: float
    check_weight: float

    def cost_part(self, usd: float) -> RewardPart:
        return RewardPart(-_share(usd, self.reference.cost_usd), self.alpha * self.cost_weight)

    def latency_part(self, ms: float) -> RewardPart:
        return RewardPart(-_share(ms, self.reference.latency_ms), self.alpha * self.latency_weight)

    def checks_part(self, passed: int, steps: int) -> RewardPart:
        return RewardPart(passed / max(steps, 1), self.alpha * self.check_weight)

    @property
    def floor(self) -> float:
        return -self.alpha * (self.cost_weight + self.latency_weight) - self.margin

    def remarks(self) -> list[str]:
        source = self.reference.source
        terms = (
            ("cost", self.cost_weight, self.reference.cost_usd, "USD", "rewards.cost_reference_usd"),
            ("latency", self.latency_weight, self.reference.latency_ms, "ms", "rewards.latency_reference_ms"),
        )
        said = [
            f"less up to {weight:.0%} of it for {name} (half of that at {usual:.3g} {unit})"
            for name, weight, usual, unit, _ in terms
            if weight > 0 and usual > 0
        ]
        if self.check_weight > 0:
            said.append(f"{self.check_weight:.0%} of it more where all subtasks pass their own checks")
        whole = ", ".join([f"{self.alpha:g} per success", *said])
        return [
            f"reward: {whole}" + (f"; reference: {source}" if self.cost_weight or self.latency_weight else ""),
            *(
                f"{name} is not weighed, since it was 0 {unit} throughout ({source}): there is nothing to compare it "
                f"with; set {key} to weigh it all the same"
                for name, weight, usual, unit, key in terms
                if weight > 0 and not usual > 0
            ),
            *self._remarks_on_named(),
        ]


@dataclass(frozen=True)
class AbsoluteReward(RewardForm):
    """`alpha * success - beta * cost_usd - gamma_latency * latency_ms + shaped_reward * checks passed`.

    The reference serves warnings alone.
    """

    beta: float
    gamma_latency: float
    shaped_reward: float

    def cost_part(self, usd: float) -> RewardPart:
        return RewardPart(-usd, self.beta)

    def latency_part(self, ms: float) -> RewardPart:
        return RewardPart(-ms, self.gamma_latency)

    def checks_part(self, passed: int, steps: int) -> RewardPart:
        return RewardPart(passed, self.shaped_reward)

    @property
    def floor(self) -> float:
        return -self.margin

    def remarks(self) -> list[str]:
        found = [f"reward: absolute, {self.alpha:g} per success"]
        usd, ms = (self.reference.cost_usd, self.reference.latency_ms) if self.reference else (None, None)
        terms = (("beta", self.beta, "USD", usd), ("gamma_latency", self.gamma_latency, "ms of latency", ms))
        for key, rate, unit, usual in terms:
            if rate <= 0:
                continue
            said = f"training.phase2_rl.{key}={rate:g}: {self.alpha / rate:.3g} {unit} take away what a success gives"
            if usual is None:
                found.append(f"{said}; mind that executions cost less, or leave it out for rewards.form=relative")
            elif rate * usual >= _TELLING * self.alpha:
                found.append(
                    f"warning: {said}, and an execution typically needs {usual:.3g}, so training may give up success "
                    "for it; lower it, or leave it out for rewards.form=relative"
                )
            else:
                found.append(said)
        return found + self._remarks_on_named()


def invalid_margin(alpha: float) -> float:
    """Least distance of an invalid plan to the valid ones, where a success is worth `alpha`."""
    return INVALID_MARGIN * (alpha or 1.0)


def invalid_reward(floor: float, margin: float, valid: Iterable[float]) -> float:
    """What an invalid plan is worth beside `valid` ones: the floor, or the margin less than the worst of them."""
    return min(floor, min(valid, default=math.inf) - margin)


def reward_form(rewards: RewardsConfig, weights: RewardWeights, measured: Reference | None) -> RewardForm | None:
    """The configured form; None where it compares with a reference, and that is neither measured nor configured."""
    success = weights.alpha or 1.0
    named = {reward_name(name): success * weight for name, weight in rewards.reward_weights.items()}
    if rewards.form == "absolute":
        rates = (weights.beta or 0.0, weights.gamma_latency or 0.0, weights.shaped_reward or 0.0)
        return AbsoluteReward(weights.alpha, rewards.success, measured, *rates, named=named)
    reference = settle(rewards, measured)
    if reference is None:
        return None
    weighed = (rewards.cost_weight, rewards.latency_weight, rewards.check_weight)
    return RelativeReward(weights.alpha, rewards.success, reference, *weighed, named=named)


def _share(value: float, reference: float) -> float:
    """`value / (value + reference)`; 0 for nothing, and where there is nothing to compare with."""
    return value / (value + reference) if value > 0 and reference > 0 else 0.0
