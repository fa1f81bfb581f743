"""Episodes as tensors: every turn a row, with the advantage of each of its decisions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, cast

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from orchestai.config import Phase2Config
from orchestai.outcome import Scored
from orchestai.planner.base import AnyDecisions
from orchestai.tasks.task import Task
from orchestai.training.rl import maths
from orchestai.training.rl.credit import step_advantages
from orchestai.training.rl.episode import Episode, Trajectory, Turn
from orchestai.training.rl.maths import Bound, Counts, GroupAdvantages, Level
from orchestai.training.rl.recipes import Recipe


@dataclass(frozen=True, eq=False)
class Batch:
    """Rows to learn from; (rows, slots) tensors on the CPU unless said otherwise, shorter rows padded on the right.

    Attributes:
        tasks, decisions: one per row.
        max_slots: most slots that a row can have; the constant that `dr_grpo` divides by.
        logp, values: when the decisions were sampled.
        mask: bool; the slots in the loss.
        weights: of each decision in the policy loss, correcting for a sampler that is not quite the policy.
        advantages: of each decision.
        returns: targets of the value; for PPO.
        rollouts: (rows,) number of the episode that the row belongs to.
        rollout_slots: (rows,) slots of that whole episode.
    """

    tasks: tuple[Task, ...]
    decisions: tuple[AnyDecisions, ...]
    max_slots: int
    logp: Tensor
    mask: Tensor
    values: Tensor
    weights: Tensor
    advantages: Tensor
    returns: Tensor
    rollouts: Tensor
    rollout_slots: Tensor

    def __len__(self) -> int:
        return len(self.tasks)

    def take(self, rows: Sequence[int]) -> Batch:
        """The rows of those numbers."""
        index = torch.tensor(rows, dtype=torch.long)
        some = replace(self, tasks=tuple(self.tasks[i] for i in rows), decisions=tuple(self.decisions[i] for i in rows))
        return some._each(lambda tensor: tensor[index])

    def without_loss(self) -> Batch:
        """The same rows with no slot in the loss."""
        return replace(self, mask=torch.zeros_like(self.mask))

    def to(self, device: torch.device) -> Batch:
        return self._each(lambda tensor: tensor.to(device))

    def counts(self) -> Counts:
        """What the rows add up to, if they are all of one optimiser step."""
        return Counts(
            rows=len(self), slots=int(self.mask.sum()), rollouts=len(self.rollouts.unique()), length=self.max_slots
        )

    def _each(self, change: Callable[[Tensor], Tensor]) -> Batch:
        changed: dict[str, Any] = {name: change(x) for name, x in vars(self).items() if isinstance(x, Tensor)}
        return replace(self, **changed)


@dataclass(frozen=True)
class Learning:
    """A batch and what is to be learned from it.

    Attributes:
        batch: None if no episode can be learned from.
        groups, flat_groups: groups compared, and those whose rewards do not differ.
        advantages: (trajectories,) reward above baseline; for PPO and `credit: step`, the mean over each
            trajectory's decisions.
        sampler: how far the sampler was from the policy, for reports; empty without `sampler_correction`.
    """

    batch: Batch | None
    groups: int
    flat_groups: int
    advantages: Tensor
    sampler: Mapping[str, float] = field(default_factory=dict)

    @property
    def worthwhile(self) -> bool:
        """Whether anything is better or worse than expected; if not, only noise would be learned."""
        return self.batch is not None and bool((self.advantages != 0).any())


def make_batch(
    episodes: Sequence[Episode], tasks: Mapping[str, Task], recipe: Recipe, config: Phase2Config, max_slots: int
) -> Learning:
    """Compare the rewards and give every decision its advantage.

    Unscorable episodes are left out. A trajectory is compared with those of the same role in the same group.

    Args:
        tasks: by id.
        max_slots: of the policy.
    """
    known = [(i, t) for i, e in enumerate(episodes) if isinstance(e.outcome, Scored) for t in e.trajectories if t.turns]
    rewards = torch.tensor([_reward(episodes[i], t) for i, t in known], dtype=torch.float64)
    names = [(episodes[i].group_id, t.role) for i, t in known]
    number = {name: n for n, name in enumerate(dict.fromkeys(names))}
    compared = _compare(recipe, rewards, torch.tensor([number[name] for name in names], dtype=torch.long))
    if not known:
        return Learning(None, 0, 0, compared.values)

    turns = [turn for _, trajectory in known for turn in trajectory.turns]
    of_row = torch.tensor([k for k, (_, trajectory) in enumerate(known) for _ in trajectory.turns])
    mask = _stack([turn.mask for turn in turns])
    values = _stack([turn.value for turn in turns]).float()
    advantages = compared.values.float()
    if recipe.baseline == "critic":
        unit = abs(config.alpha) or 1.0
        turn_numbers = torch.tensor([n for _, trajectory in known for n in range(len(trajectory.turns))])
        per_slot, returns = _critic(rewards.float() / unit, of_row, turn_numbers, mask, values, config)
        advantages = _mean_of_slots(per_slot, mask, of_row, len(known))
        per_slot = maths.whiten(per_slot, mask)
    else:
        per_slot, returns = torch.where(mask, advantages[of_row, None], 0.0), torch.zeros_like(values)
        if config.credit == "step":
            group_ids = torch.tensor([number[name] for name in names])
            by_step = _credit_steps([episodes[i] for i, _ in known], rewards, group_ids)
            steps = _stack([turn.step for turn in turns], fill=-1)
            per_slot = torch.where(
                mask & (steps >= 0), by_step[of_row].gather(1, steps.clamp(0, by_step.shape[1] - 1)), 0.0
            )
            advantages = _mean_of_slots(per_slot, mask, of_row, len(known))
    rollouts = torch.tensor([i for i, _ in known])[of_row]
    logp = _stack([turn.logp for turn in turns]).float()
    weights, sampler = _correct(turns, logp, mask, config)
    batch = Batch(
        tasks=tuple(tasks[episodes[i].task_id] for i in rollouts.tolist()),
        decisions=tuple(turn.decisions for turn in turns),
        max_slots=max_slots,
        logp=logp,
        mask=mask,
        values=values,
        weights=weights,
        advantages=per_slot,
        returns=returns,
        rollouts=rollouts,
        rollout_slots=torch.zeros(len(episodes)).index_add(0, rollouts, mask.float().sum(1))[rollouts],
    )
    return Learning(batch, compared.groups, compared.flat, advantages, sampler)


def _stack(rows: Sequence[Tensor], fill: float = 0) -> Tensor:
    """(rows, slots of the longest, at least 1) from tensors of different lengths."""
    stacked = pad_sequence(list(rows), batch_first=True, padding_value=fill)
    return stacked if stacked.shape[1] else stacked.new_full((len(rows), 1), fill)


def _correct(
    turns: Sequence[Turn], logp: Tensor, mask: Tensor, config: Phase2Config
) -> tuple[Tensor, Mapping[str, float]]:
    """(rows, slots) weights for what the sampler drew too often or too rarely, and figures about them."""
    if config.sampler_correction is None:
        return torch.ones_like(logp), {}
    level, bound = config.sampler_correction.split("_")
    drawn = _stack([turn.logp if turn.sampler_logp is None else turn.sampler_logp for turn in turns]).float()
    level, bound = cast("Level", level), cast("Bound", bound)
    weights = maths.sampler_weights(logp, drawn, mask, level, bound, config.sampler_ratio_min, config.sampler_ratio_max)
    plain = maths.sampler_weights(logp, drawn, mask, level, "truncate", 0.0, torch.inf)
    count = mask.sum().clamp(min=1)
    return weights, {
        "sampler_ratio": float((plain * mask).sum() / count),
        "sampler_max_ratio": float((plain * mask).max()),
        "sampler_bounded_share": float((weights != plain).sum() / count),
    }


def _mean_of_slots(per_slot: Tensor, mask: Tensor, of_row: Tensor, trajectories: int) -> Tensor:
    """(trajectories,) means of (rows, slots) over the slots of each trajectory's rows."""
    summed = torch.zeros(trajectories).index_add(0, of_row, per_slot.sum(1))
    return summed / torch.zeros(trajectories).index_add(0, of_row, mask.float().sum(1)).clamp(min=1)


def _reward(episode: Episode, trajectory: Trajectory) -> float:
    if trajectory.reward is not None:
        return trajectory.reward
    assert isinstance(episode.outcome, Scored)
    return episode.outcome.value


def _compare(recipe: Recipe, rewards: Tensor, group_ids: Tensor) -> GroupAdvantages:
    """Advantages by the recipe's baseline; for a critic, only the group's figures are of use."""
    everything = torch.ones(len(rewards), dtype=torch.bool)
    if recipe.baseline == "leave_one_out":
        return maths.rloo(rewards, group_ids, everything)
    if recipe.baseline == "batch":
        groups = maths.group_advantages(rewards, group_ids, everything, scale="none")
        together = maths.group_advantages(rewards, torch.zeros_like(group_ids), everything, scale="none")
        return groups._replace(values=together.values)
    scale: maths.Scale = "group" if recipe.baseline == "group_scaled" else "none"
    return maths.group_advantages(rewards, group_ids, everything, scale=scale)


def _credit_steps(episodes: Sequence[Episode], rewards: Tensor, group_ids: Tensor) -> Tensor:
    """(episodes, steps) advantages of the steps of each episode's plan."""
    longest = max((len(episode.steps) for episode in episodes), default=0)
    shape = len(episodes), max(longest, 1)
    own, failed, exists = torch.zeros(shape, dtype=torch.float64), torch.zeros(shape).bool(), torch.zeros(shape).bool()
    for row, episode in enumerate(episodes):
        n = len(episode.steps)
        own[row, :n] = torch.tensor([step.reward for step in episode.steps], dtype=torch.float64)
        failed[row, :n] = torch.tensor([step.failed for step in episode.steps], dtype=torch.bool)
        exists[row, :n] = True
    return step_advantages(rewards, own, failed, exists, group_ids).float()


def _critic(
    rewards: Tensor, of_row: Tensor, turn_numbers: Tensor, mask: Tensor, values: Tensor, config: Phase2Config
) -> tuple[Tensor, Tensor]:
    """GAE along each trajectory, its turns one after the other, with the reward at its last decision.

    Args:
        rewards: (trajectories,).
        of_row: (rows,) trajectory of each row.
        turn_numbers: (rows,) place of each row in its trajectory.

    Returns:
        (rows, slots) advantages and returns.
    """
    shape = (len(rewards), int(turn_numbers.max()) + 1, mask.shape[1])

    def along(tensor: Tensor) -> Tensor:
        wide = tensor.new_zeros(shape)
        wide[of_row, turn_numbers] = tensor
        return wide.flatten(1)

    exists = along(mask)
    found = maths.gae(maths.at_last_slot(rewards, exists), along(values), exists, config.gamma, config.lambda_gae)
    advantages, returns = (tensor.unflatten(1, shape[1:])[of_row, turn_numbers] for tensor in found)
    return advantages, returns
