"""The formulas of policy optimization: pure functions on (rows, slots) tensors.

A row is what one role decided in an episode, or a part of it (`rows`); a slot is one decision with a log-probability (a
planner's choice, or a token). `mask` is True for slots that exist; what a tensor holds elsewhere never matters. Nothing
here knows a model or a configuration.

Sources (arXiv): GRPO (Shao et al. 2024, 2402.03300), Dr. GRPO (Liu et al. 2025, 2503.20783), DAPO (Yu et al. 2025,
2503.14476), GSPO (Zheng et al. 2025, 2507.18071), CISPO (MiniMax 2025, 2506.13585), RLOO (Kool et al. 2019; Ahmadian et
al. 2024, 2402.14740), PPO (Schulman et al. 2017, 1707.06347), GAE (Schulman et al. 2016, 1506.02438), KL estimators
(Schulman 2020, joschu.net/blog/kl-approx.html)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

import torch
from torch import Tensor

from orchestai.config.rl import OptimizationConfig

Scale: TypeAlias = Literal["group", "none"]
Level: TypeAlias = Literal["token", "sequence"]
Surrogate: TypeAlias = Literal["clip", "cispo", "reinforce"]
KL: TypeAlias = Literal["k1", "k3"]
Mode: TypeAlias = Literal["sequence_mean", "sequence_sum", "slot_mean", "constant_length"]


_ROUNDING = 1e-9
"""Rewards that differ by a smaller share of themselves are equal."""


class GroupAdvantages(NamedTuple):
    """Advantages of (rows,) rewards, with what the groups had to say.

    Attributes:
        values: (rows,); 0 for rows that cannot be scored and for flat groups.
        groups: groups with a scorable row.
        flat: of them, those that teach nothing because they have rows of one unit or equal rewards.
    """

    values: Tensor
    groups: int
    flat: int


class _Groups(NamedTuple):
    of_row: Tensor
    """(rows,) group of each row, numbered from 0."""
    size: Tensor
    """(groups,) units with a scorable row."""
    mean: Tensor
    """(groups,) mean over its units of the mean reward of their scorable rows."""
    flat: Tensor
    """(groups,) bool: at most one unit, or all rewards equal but for rounding."""
    weight: Tensor
    """(rows,) of each row in the mean of its group: those of one unit add up to 1; 0 where a row cannot be scored."""
    unit_mean: Tensor
    """(rows,) mean reward of the row's unit."""


def _groups(rewards: Tensor, group_ids: Tensor, scorable: Tensor, unit_ids: Tensor | None) -> _Groups:
    names, index = torch.unique(group_ids, return_inverse=True)
    units = torch.arange(len(rewards)) if unit_ids is None else unit_ids
    pairs, unit = torch.unique(torch.stack([index, units.to(index)]), dim=1, return_inverse=True)
    counts = rewards.new_zeros(pairs.shape[1]).index_add(0, unit, scorable.to(rewards.dtype))
    weight = scorable / counts[unit].clamp(min=1)
    unit_mean = torch.zeros_like(counts).index_add(0, unit, weight * rewards)[unit]
    zeros = rewards.new_zeros(len(names))
    size = zeros.index_add(0, index, weight).round()
    mean = zeros.index_add(0, index, weight * rewards) / size.clamp(min=1)
    low = zeros.scatter_reduce(0, index[scorable], rewards[scorable], "amin", include_self=False)
    high = zeros.scatter_reduce(0, index[scorable], rewards[scorable], "amax", include_self=False)
    flat = (size <= 1) | (high - low <= _ROUNDING * torch.maximum(low.abs(), high.abs()))
    return _Groups(index, size, mean, flat, weight, unit_mean)


def group_advantages(
    rewards: Tensor,
    group_ids: Tensor,
    scorable: Tensor,
    *,
    unit_ids: Tensor | None = None,
    scale: Scale = "group",
    ddof: int = 1,
    eps: float = 1e-4,
) -> GroupAdvantages:
    """GRPO's advantage: the reward above the mean of its group, in standard deviations.

    Groups are named by `group_ids`, never by position, so the order of the rows does not matter. With `scale="group"`
    this is TRL's formula for (ddof, eps) = (1, 1e-4), verl's for (1, 1e-6) and rLLM's for (0, 1e-6), but for one thing:
    a group of one row gets 0.

    Args:
        rewards: (rows,).
        group_ids: (rows,) integers.
        scorable: (rows,) bool; the other rows are in no mean and no deviation, whatever their reward holds.
        unit_ids: (rows,) integers; rows of one unit count as one in the mean and the deviation of their group, each in
            equal parts (several conversations of one attempt, say). None: every row is a unit.
        scale: divide by the standard deviation of the group, or by nothing (Dr. GRPO).
        ddof: 1 divides the variance by n - 1, 0 by n.
        eps: added to the standard deviation.
    """
    rewards = torch.where(scorable, rewards, 0.0)
    groups = _groups(rewards, group_ids, scorable, unit_ids)
    above = torch.where(scorable, rewards - groups.mean[groups.of_row], 0.0)
    if scale == "group":
        squares = torch.zeros_like(groups.mean).index_add(0, groups.of_row, groups.weight * above**2)
        above = above / ((squares / (groups.size - ddof).clamp(min=1)).sqrt()[groups.of_row] + eps)
    return _without_flat(above, scorable, groups)


def rloo(rewards: Tensor, group_ids: Tensor, scorable: Tensor, *, unit_ids: Tensor | None = None) -> GroupAdvantages:
    """Leave-one-out advantage: the reward above the mean of the other units of its group. Arguments as above."""
    rewards = torch.where(scorable, rewards, 0.0)
    groups = _groups(rewards, group_ids, scorable, unit_ids)
    others = (groups.size - 1).clamp(min=1)[groups.of_row]
    baseline = ((groups.mean * groups.size)[groups.of_row] - groups.unit_mean) / others
    return _without_flat(rewards - baseline, scorable, groups)


def _without_flat(above: Tensor, scorable: Tensor, groups: _Groups) -> GroupAdvantages:
    exists = groups.size > 0
    values = torch.where(scorable & ~groups.flat[groups.of_row], above, 0.0)
    return GroupAdvantages(values, int(exists.sum()), int((exists & groups.flat).sum()))


def at_ends(values: Tensor, act: Tensor, mask: Tensor) -> Tensor:
    """(rows, slots) the value of each act at the last existing slot that belongs to it, 0 elsewhere.

    Args:
        values: (acts,).
        act: (rows, slots) int64; the act of each existing slot. An act's slots are neighbors, but for those that do
            not exist, and in one row.
        mask: (rows, slots) bool.
    """
    placed = torch.zeros(mask.shape, dtype=values.dtype)
    rows, slots = mask.nonzero(as_tuple=True)
    acts = act[rows, slots]
    ends = torch.ones_like(mask[rows, slots])
    ends[:-1] = (acts[1:] != acts[:-1]) | (rows[1:] != rows[:-1])
    placed[rows[ends], slots[ends]] = values[acts[ends]]
    return placed


def returns_to_go(rewards: Tensor, mask: Tensor, gamma: float) -> Tensor:
    """(rows, slots) discounted sum of the rewards from each slot on. Only existing slots discount; others get 0."""
    returns = torch.zeros_like(rewards)
    following = rewards.new_zeros(len(rewards))
    for t in reversed(range(rewards.shape[1])):
        following = torch.where(mask[:, t], rewards[:, t] + gamma * following, following)
        returns[:, t] = torch.where(mask[:, t], following, 0.0)
    return returns


def gae(rewards: Tensor, values: Tensor, mask: Tensor, gamma: float, lam: float) -> tuple[Tensor, Tensor]:
    """Generalised advantage estimation, A_t = sum_k (gamma lam)^k (r_{t+k} + gamma V_{t+k+1} - V_{t+k}).

    A slot that does not exist is stepped over: the next value and the running sum are carried across it, as if the row
    had been written without it. The value after the last slot is 0.

    Returns:
        (rows, slots) advantages and (rows, slots) returns A + V, the target of the value; both 0 where `mask` is False.
    """
    advantages = torch.zeros_like(values)
    running = values.new_zeros(len(values))
    next_value = values.new_zeros(len(values))
    for t in reversed(range(values.shape[1])):
        exists = mask[:, t]
        delta = rewards[:, t] + gamma * next_value - values[:, t]
        running = torch.where(exists, delta + gamma * lam * running, running)
        next_value = torch.where(exists, values[:, t], next_value)
        advantages[:, t] = torch.where(exists, running, 0.0)
    return advantages, torch.where(mask, advantages + values, 0.0)


def whiten(values: Tensor, mask: Tensor, eps: float = 1e-8) -> Tensor:
    """Shift and scale the existing slots to mean 0 and (unbiased) variance 1; the others get 0."""
    count = mask.sum().clamp(min=1)
    mean = torch.where(mask, values, 0.0).sum() / count
    centred = torch.where(mask, values - mean, 0.0)
    variance = (centred**2).sum() / (count - 1).clamp(min=1)
    return centred * torch.rsqrt(variance + eps)


def policy_ratio(logp: Tensor, old_logp: Tensor, mask: Tensor, level: Level = "token") -> Tensor:
    """(rows, slots) probability now over probability when it was sampled; 1 where `mask` is False.

    `sequence` (GSPO) gives every slot of a row the geometric mean of the row's ratios.
    """
    log_ratio = torch.where(mask, logp - old_logp, 0.0)
    if level == "sequence":
        log_ratio = log_ratio.sum(1, keepdim=True) / mask.sum(1, keepdim=True).clamp(min=1)
        log_ratio = torch.where(mask, log_ratio, 0.0)
    return log_ratio.exp()


class Bounds(NamedTuple):
    """How far a ratio counts in `policy_loss`.

    Attributes:
        low, high: `clip` holds it within [1 - low, 1 + high].
        max_ratio: upper bound of the weight in `cispo`.
    """

    low: float = 0.2
    high: float = 0.2
    max_ratio: float = 5.0


def policy_loss(kind: Surrogate, logp: Tensor, ratio: Tensor, advantages: Tensor, bounds: Bounds) -> Tensor:
    """(rows, slots) loss whose gradient improves the policy.

    - `clip` (PPO, GRPO, Dr. GRPO, DAPO; GSPO with a sequence ratio): -min(ratio A, clip(ratio, 1 - low, 1 + high) A).
    - `cispo`: -min(ratio, max_ratio) A logp with no gradient through the ratio, so that no slot loses its gradient.
    - `reinforce` (RLOO too): -A logp, right only for samples of the current policy.

    Args:
        logp, ratio, advantages: (rows, slots); advantages without gradient.
    """
    if kind == "clip":
        held = ratio.clamp(1 - bounds.low, 1 + bounds.high)
        return -torch.minimum(ratio * advantages, held * advantages)
    if kind == "cispo":
        return -ratio.detach().clamp(max=bounds.max_ratio) * advantages * logp
    if kind == "reinforce":
        return -advantages * logp
    raise ValueError(f"no surrogate {kind!r}")


def bounded(kind: Surrogate, ratio: Tensor, advantages: Tensor, bounds: Bounds) -> tuple[Tensor, Tensor]:
    """Where the ratio was too low, and where too high, for `policy_loss`; (rows, slots) bool each.

    For `clip` these slots have no gradient; those of `cispo` weigh less than their ratio says.
    """
    nowhere = torch.zeros_like(ratio, dtype=torch.bool)
    if kind == "cispo":
        return nowhere, ratio > bounds.max_ratio
    if kind == "reinforce":
        return nowhere, nowhere
    return (ratio < 1 - bounds.low) & (advantages < 0), (ratio > 1 + bounds.high) & (advantages > 0)


def value_loss(values: Tensor, old_values: Tensor, returns: Tensor, clip: float) -> Tensor:
    """(rows, slots) half the squared error; the larger of plain and with the value held within `clip` of its old."""
    plain = (values - returns) ** 2
    held = old_values + (values - old_values).clamp(-clip, clip)
    return torch.maximum(plain, (held - returns) ** 2) / 2


def kl(logp: Tensor, reference_logp: Tensor, kind: KL = "k3") -> Tensor:
    """(rows, slots) estimate of KL(policy || reference) from samples of the policy.

    k1 = log p/q is unbiased and may be negative; k3 = q/p - 1 - log q/p is
    unbiased and never negative.
    """
    difference = reference_logp - logp
    if kind == "k1":
        return -difference
    if kind == "k3":
        return difference.exp() - difference - 1
    raise ValueError(f"no KL estimator {kind!r}")


@dataclass(frozen=True)
class StepCounts:
    """What one optimizer step covers, over all its micro-batches and all processes.

    Attributes:
        sequences: trajectories in the loss, into however many rows each was split.
        slots: existing slots in them.
        length: the constant of `constant_length`.
    """

    sequences: int
    slots: int
    length: int = 1


def slot_weights(mask: Tensor, mode: Mode, counts: StepCounts, lengths: Tensor) -> Tensor:
    """(rows, slots) weight of each slot in the loss of one optimizer step; 0 where `mask` is False.

    The weights depend on a row and on `counts` alone: however the rows are cut into micro-batches or dealt to
    processes, and into however many rows a trajectory was split, the sum of the parts is the same loss.

    - `sequence_mean` (GRPO): mean over trajectories of the mean over a trajectory's slots.
    - `sequence_sum` (REINFORCE, RLOO): mean over trajectories of the sum over a trajectory's slots.
    - `slot_mean` (DAPO, PPO): mean over all slots.
    - `constant_length` (Dr. GRPO): sum over all slots by trajectories times a constant length.

    Args:
        lengths: (rows,) float; slots of each row's trajectory.
    """
    exists = mask.to(torch.get_default_dtype())
    if mode == "sequence_mean":
        return exists / lengths.clamp(min=1)[:, None] / max(counts.sequences, 1)
    if mode == "sequence_sum":
        return exists / max(counts.sequences, 1)
    if mode == "slot_mean":
        return exists / max(counts.slots, 1)
    if mode == "constant_length":
        return exists / (max(counts.sequences, 1) * counts.length)
    raise ValueError(f"no aggregation {mode!r}")


def aggregate(loss: Tensor, mask: Tensor, mode: Mode, counts: StepCounts, lengths: Tensor) -> Tensor:
    """This part's share of the optimizer step's scalar loss: the sum of `loss` under `slot_weights`."""
    return (torch.where(mask, loss, 0.0) * slot_weights(mask, mode, counts, lengths)).sum()


Bound: TypeAlias = Literal["truncate", "mask"]
_LARGEST_LOG = 20.0
"""Logarithms of weights are held within this, so that sums of squares stay finite."""


def sampler_weights(
    logp: Tensor, sampler_logp: Tensor, mask: Tensor, level: Level, bound: Bound, largest: float
) -> Tensor:
    """(rows, slots) weights that correct for samples of a policy that is not quite the one that is trained.

    A fast sampler computes in another dtype; its samples count as often as the trained
    policy would have drawn them: exp(logp - sampler_logp), per slot, or (`sequence`) the product over the row. A weight
    above `largest` becomes that (`truncate`) or 0 (`mask`). 1 where `mask` is False.

    Args:
        logp: (rows, slots) of the policy that is trained, before the first optimizer step on these rows.
        sampler_logp: (rows, slots) when the slots were drawn.
    """
    difference = torch.where(mask, logp - sampler_logp, 0.0)
    if level == "sequence":
        difference = difference.sum(1, keepdim=True).expand_as(difference)
    weights = difference.exp()
    weights = weights.clamp(max=largest) if bound == "truncate" else torch.where(weights <= largest, weights, 0.0)
    return torch.where(mask, weights, 1.0)


def weight_moments(log_weights: Tensor, mask: Tensor, level: Level) -> Tensor:
    """(3,) number of importance weights, their sum and that of their squares, which `effective_share` needs.

    Moments of parts add up to those of the whole. A weight is that of a slot, or (`sequence`) the product over a row.

    Args:
        log_weights: (rows, slots).
    """
    exists, logs = mask, torch.where(mask, log_weights, 0.0)
    if level == "sequence":
        exists, logs = mask.any(1), logs.sum(1)
    weights = torch.where(exists, logs.clamp(-_LARGEST_LOG, _LARGEST_LOG).exp(), 0.0)
    return torch.stack([exists.sum().to(weights.dtype), weights.sum(), (weights**2).sum()])


def effective_share(moments: Tensor) -> float:
    """ESS / n = (sum w)^2 / (n sum w^2) of n importance weights: 1 where all are equal, 1 / n where one has it all.

    That share of the samples, drawn from the target itself, would give estimates of the same variance.
    """
    count, total, squares = moments.tolist()
    return total**2 / (count * squares) if count else 1.0


Baseline: TypeAlias = Literal["group_scaled", "group", "leave_one_out", "batch", "critic"]

_USUAL = Bounds()


@dataclass(frozen=True)
class Recipe:
    """One algorithm, as a row of choices.

    Attributes:
        baseline: what the reward is compared with: the mean of its group (in standard deviations or not), the mean of
            the others of its group, the mean of the batch, or a learned value (PPO).
        surrogate: the loss per slot.
        mode: how slots and rows are averaged.
        level: whether the ratio is per slot or per row.
        bounds: of the ratio, where the configuration sets none.
    """

    baseline: Baseline
    surrogate: Surrogate
    mode: Mode
    level: Level = "token"
    bounds: Bounds = _USUAL

    @property
    def on_policy(self) -> bool:
        """Without a ratio a sample may be learned from once only."""
        return self.surrogate == "reinforce"

    def bounds_of(self, config: OptimizationConfig) -> Bounds:
        """The bounds that the configuration sets, and the recipe's for those that it leaves out."""
        low, high, max_ratio = self.bounds
        if config.epsilon is not None:
            low = high = config.epsilon
        return Bounds(low, config.epsilon_high or high, max_ratio)


RECIPES: dict[str, Recipe] = {
    "grpo": Recipe("group_scaled", "clip", "sequence_mean"),
    "dr_grpo": Recipe("group", "clip", "constant_length"),
    "dapo": Recipe("group_scaled", "clip", "slot_mean"),
    # The geometric mean of a row's ratios is far nearer to 1 than they are: the bounds of the paper's experiments.
    "gspo": Recipe("group_scaled", "clip", "sequence_mean", level="sequence", bounds=Bounds(low=3e-4, high=4e-4)),
    "cispo": Recipe("group_scaled", "cispo", "slot_mean"),
    "reinforce": Recipe("batch", "reinforce", "sequence_sum"),
    "rloo": Recipe("leave_one_out", "reinforce", "sequence_sum"),
}
# BNPO averages over the slots of a micro-batch; with an average that never depends on micro-batches it is DAPO's.
RECIPES["bnpo"] = RECIPES["dapo"]

PPO = Recipe("critic", "clip", "slot_mean")
