"""The rule of credit applied: rewards of episodes become advantages of the decisions that earned them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from orchestai.config import Phase2Config, RlConfig
from orchestai.errors import UserError
from orchestai.outcome import Reward
from orchestai.tasks.task import Task
from orchestai.training.rl.algorithms import formulas
from orchestai.training.rl.algorithms.credit import Acts, Credit, acts_of, step_advantages
from orchestai.training.rl.algorithms.critic import PER_DECISION, PER_TOKEN, advantages_and_returns, horizon
from orchestai.training.rl.algorithms.formulas import GroupAdvantages
from orchestai.training.rl.algorithms.recipes import Recipe
from orchestai.training.rl.batch import Batch, corrected
from orchestai.training.rl.rollouts.rows import BETWEEN, TrajectoryRow, rows_of
from orchestai.types import Episode, TokenDecisions, Turn

_TELLING = 0.02
"""Least difference of cost and latency, in shares of a success, that tells plans apart: no two took equally long."""


class Credited(NamedTuple):
    """What a turn's decisions in the loss were credited with.

    Attributes:
        places: (decisions,) int64; slots of the turn's row that they take.
        advantages: (decisions,).
    """

    places: Tensor
    advantages: Tensor

    @property
    def advantage(self) -> float:
        """The mean; 0 without any decision."""
        return float(self.advantages.mean()) if self.slots else 0.0

    @property
    def slots(self) -> int:
        """How many they are."""
        return len(self.advantages)


@dataclass(frozen=True)
class Learning:
    """A batch and what is to be learned from it.

    Attributes:
        batch: None if no episode can be learned from.
        groups, flat_groups: groups compared, and those whose rewards do not differ.
        advantages: (acts,) reward above baseline, by the rule of credit; for PPO and `credit: step`, (trajectories,)
            the mean over each trajectory's decisions.
        metrics: for reports: with `sampler_correction`, how far the sampler was from the policy.
        credited: what each turn was credited with.
        ignored: whose rewards were given, but are not what the rule of credit looks at.
    """

    batch: Batch | None
    groups: int
    flat_groups: int
    advantages: Tensor
    metrics: Mapping[str, float] = field(default_factory=dict)
    credited: Mapping[Turn, Credited] = field(default_factory=dict)
    ignored: Sequence[str] = ()

    @property
    def worthwhile(self) -> bool:
        """Whether anything in the loss is better or worse than expected; if not, only noise would be learned."""
        return self.batch is not None and bool(self.batch.mask.any()) and bool((self.advantages != 0).any())


def plan_credit(config: Phase2Config) -> Credit:
    """How the rewards of plans are credited; `alpha`, a success, is their unit.

    Raises:
        UserError: steps cannot be credited apart as the configuration says.
    """
    by_step = config.credit == "step"
    comparable = config.algorithm == "GRPO" and config.loss_type == "dr_grpo"
    if by_step and not (comparable and set(config.explore) <= {"worker", "fallback"}):
        raise UserError(
            "training.phase2_rl.credit: step needs algorithm GRPO, loss_type dr_grpo, and explore within worker and "
            "fallback, so that plans of one task have the same steps; set them, or credit to plan"
        )
    return Credit(
        "role",
        unit=config.alpha or 1.0,
        by_step=by_step,
        telling=_TELLING,
    )


def make_batch(
    episodes: Sequence[Episode],
    tasks: Mapping[str, Task],
    recipe: Recipe,
    config: RlConfig,
    max_slots: int,
    credit: Credit,
) -> Learning:
    """Compare the rewards and give every decision its advantage.

    Unscorable episodes are left out. What a role did is compared with what the same role did in the same group.

    Args:
        tasks: by id.
        max_slots: of the policy.

    Raises:
        UserError: the rule is not for PPO.
    """
    if credit.telling and recipe.baseline not in ("critic", "batch"):
        episodes = _without_trifles(episodes, credit.telling * credit.unit)
    known = [(i, t) for i, e in enumerate(episodes) if isinstance(e.reward, Reward) for t in e.trajectories if t.turns]
    if not known:
        return Learning(None, 0, 0, torch.zeros(0, dtype=torch.float64))
    acts = acts_of([(episodes[i], trajectory) for i, trajectory in known])
    turns = [turn for _, trajectory in known for turn in trajectory.turns]

    compared = credit.advantages(acts, partial(_compare, recipe))
    split = [rows_of(trajectory.turns) for _, trajectory in known]
    rows = [row for some in split for row in some]
    of_row = torch.tensor([k for k, some in enumerate(split) for _ in some])
    mask = _stack([row.mask for row in rows])
    values = _stack([row.value for row in rows]).float()
    act = _act_of_slot(acts, of_row, rows)
    advantages = compared.values.float()
    truncated = torch.tensor([turn.truncated for turn in turns])
    in_loss = mask & ~truncated[act] if config.mask_truncated else mask
    if recipe.baseline == "critic":
        row_numbers = torch.tensor([n for some in split for n in range(len(some))])
        earned = (credit.rewards(acts) / credit.unit).float()
        ahead = horizon(config, PER_TOKEN if isinstance(rows[0].decisions, TokenDecisions) else PER_DECISION)
        per_slot, returns = advantages_and_returns(earned, act, of_row, row_numbers, mask, values, ahead)
        advantages = _mean_of_slots(per_slot, mask, of_row, len(known))
        per_slot = formulas.whiten(per_slot, in_loss)
    else:
        per_slot, returns = torch.where(mask, advantages[act], 0.0), torch.zeros_like(values)
        if credit.by_step:
            by_step = _credit_steps([episodes[i] for i, _ in known], acts)
            steps = _stack([row.step for row in rows], fill=-1)
            per_slot = torch.where(
                mask & (steps >= 0), by_step[of_row].gather(1, steps.clamp(0, by_step.shape[1] - 1)), 0.0
            )
            advantages = _mean_of_slots(per_slot, mask, of_row, len(known))
    if config.mask_truncated:
        advantages = _without_truncated(advantages, truncated, acts)
    logp = _stack([row.logp for row in rows]).float()
    slots = in_loss.float().sum(1)
    batch = Batch(
        tasks=tuple(tasks[episodes[known[k][0]].task_id] for k in of_row.tolist()),
        decisions=tuple(row.decisions for row in rows),
        max_slots=max_slots,
        logp=logp,
        sampler_logp=_stack([row.sampler_logp for row in rows]).float(),
        mask=in_loss,
        values=values,
        weights=torch.ones_like(logp),
        advantages=per_slot,
        returns=returns,
        sequences=of_row,
        lengths=torch.zeros(len(known)).index_add(0, of_row, slots)[of_row],
    )
    batch, metrics = corrected(batch, logp, config)
    credited = _credited(turns, per_slot, in_loss, act)
    return Learning(batch, compared.groups, compared.flat, advantages, metrics, credited, credit.ignored(acts))


def _without_truncated(advantages: Tensor, truncated: Tensor, acts: Acts) -> Tensor:
    """Advantages of acts, or of trajectories, 0 where all that they are of was cut off.

    Args:
        truncated: (acts,) bool.
    """
    if len(advantages) == len(truncated):
        return torch.where(truncated, 0.0, advantages)
    kept = torch.zeros(len(advantages)).index_add(0, acts.trajectory, (~truncated).float())
    return torch.where(kept > 0, advantages, 0.0)


def _without_trifles(episodes: Sequence[Episode], telling: float) -> list[Episode]:
    """The episodes; those of a group that differ in cost and latency alone, and by less than `telling`, are worth the
    same."""
    groups: dict[str, list[Reward]] = {}
    for e in episodes:
        if isinstance(e.reward, Reward):
            groups.setdefault(e.group_id, []).append(e.reward)
    means = {}
    for name, rewards in groups.items():
        others = {tuple(part for key, part in r.parts.items() if key not in ("cost", "latency")) for r in rewards}
        totals = [reward.total for reward in rewards]
        if all("success" in r.parts for r in rewards) and len(others) == 1 and max(totals) - min(totals) < telling:
            means[name] = sum(totals) / len(totals)
    return [
        replace(e, reward=Reward(means[e.group_id], e.reward.parts))
        if isinstance(e.reward, Reward) and e.group_id in means
        else e
        for e in episodes
    ]


def _credited(turns: Sequence[Turn], per_slot: Tensor, mask: Tensor, act: Tensor) -> dict[Turn, Credited]:
    """What each turn was credited with, from (rows, slots) advantages and the number of each slot's turn."""
    order = torch.argsort(act[mask], stable=True)
    sizes = torch.bincount(act[mask], minlength=len(turns)).tolist()
    places, values = (some[order].split(sizes) for some in (mask.nonzero()[:, 1], per_slot[mask]))
    return {turn: Credited(*one) for turn, *one in zip(turns, places, values, strict=True)}


def _act_of_slot(acts: Acts, of_row: Tensor, rows: Sequence[TrajectoryRow]) -> Tensor:
    """(rows, slots) number of the act that each slot belongs to; any act's between acts."""
    first = (acts.number == 0).nonzero()[:, 0]
    turns = _stack([row.turn for row in rows], fill=BETWEEN)
    return first[of_row][:, None] + turns.clamp(min=0)


def _stack(rows: Sequence[Tensor], fill: float = 0) -> Tensor:
    """(rows, slots of the longest, at least 1) from tensors of different lengths."""
    stacked = pad_sequence(list(rows), batch_first=True, padding_value=fill)
    return stacked if stacked.shape[1] else stacked.new_full((len(rows), 1), fill)


def _mean_of_slots(per_slot: Tensor, mask: Tensor, of_row: Tensor, trajectories: int) -> Tensor:
    """(trajectories,) means of (rows, slots) over the slots of each trajectory's rows."""
    summed = torch.zeros(trajectories).index_add(0, of_row, per_slot.sum(1))
    return summed / torch.zeros(trajectories).index_add(0, of_row, mask.float().sum(1)).clamp(min=1)


def _compare(recipe: Recipe, rewards: Tensor, group_ids: Tensor, unit_ids: Tensor | None) -> GroupAdvantages:
    """Advantages by the recipe's baseline; for a critic, only the group's metrics are of use."""
    everything = torch.ones(len(rewards), dtype=torch.bool)
    if recipe.baseline == "leave_one_out":
        return formulas.rloo(rewards, group_ids, everything, unit_ids=unit_ids)
    if recipe.baseline == "batch":
        groups = formulas.group_advantages(rewards, group_ids, everything, unit_ids=unit_ids, scale="none")
        whole = torch.zeros_like(group_ids)
        together = formulas.group_advantages(rewards, whole, everything, unit_ids=unit_ids, scale="none")
        return groups._replace(values=together.values)
    scale: formulas.Scale = "group" if recipe.baseline == "group_scaled" else "none"
    return formulas.group_advantages(rewards, group_ids, everything, unit_ids=unit_ids, scale=scale)


def _credit_steps(episodes: Sequence[Episode], acts: Acts) -> Tensor:
    """(episodes, steps) advantages of the steps of each episode's plan."""
    plans = [e.reward.steps if isinstance(e.reward, Reward) else () for e in episodes]
    shape = len(plans), max([1, *map(len, plans)])
    own, failed, exists = torch.zeros(shape, dtype=torch.float64), torch.zeros(shape).bool(), torch.zeros(shape).bool()
    for row, steps in enumerate(plans):
        n = len(steps)
        own[row, :n] = torch.tensor([step.earned for step in steps], dtype=torch.float64)
        failed[row, :n] = torch.tensor([step.failed for step in steps], dtype=torch.bool)
        exists[row, :n] = True
    return step_advantages(acts.role_reward[acts.last], own, failed, exists, acts.group[acts.last]).float()
