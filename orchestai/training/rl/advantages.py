"""The rule of credit applied: rewards of episodes become advantages of the decisions that earned them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import NamedTuple

import torch
from rich.table import Table
from torch import Tensor
from torch.nn.utils.rnn import pad_sequence

from orchestai.config import OptimizationConfig, Phase2Config, RlConfig
from orchestai.errors import UserError
from orchestai.execution.reward import invalid_reward
from orchestai.lm.value_head import ValueHead
from orchestai.outcome import Reward, RewardPart
from orchestai.tasks.task import Task
from orchestai.training.rl import formulas
from orchestai.training.rl.batch import BETWEEN, Batch, corrected, rows_of
from orchestai.training.rl.credit import Acts, Credit, acts_of, step_advantages
from orchestai.training.rl.formulas import GroupAdvantages, Recipe
from orchestai.training.rl.policy import Policy
from orchestai.types import Episode, TokenDecisions, Trajectory, Turn

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
    """How the rewards of plans are credited; `alpha`, a success, is their unit."""
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
    # (rows, slots) the act that each slot belongs to; any act between acts
    first = (acts.number == 0).nonzero()[:, 0]
    act = first[of_row][:, None] + _stack([row.turn for row in rows], fill=BETWEEN).clamp(min=0)
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
        # 0 where all that an act, or a trajectory, is of was cut off
        kept = (~truncated).float()
        if len(advantages) != len(truncated):
            kept = torch.zeros(len(advantages)).index_add(0, acts.trajectory, kept)
        advantages = torch.where(kept > 0, advantages, 0.0)
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
    order = torch.argsort(act[in_loss], stable=True)
    sizes = torch.bincount(act[in_loss], minlength=len(turns)).tolist()
    places, values = (some[order].split(sizes) for some in (in_loss.nonzero()[:, 1], per_slot[in_loss]))
    credited = {turn: Credited(*one) for turn, *one in zip(turns, places, values, strict=True)}
    return Learning(batch, compared.groups, compared.flat, advantages, metrics, credited, credit.ignored(acts))


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


VALUE_STEP = 0.05
"""Most by which one optimizer step changes a value, unless the learning rate is given; successes are worth about 1."""


class Horizon(NamedTuple):
    """How far a reward reaches back.

    Attributes:
        gamma: discount per slot.
        lam: lambda of generalized advantage estimation.
    """

    gamma: float
    lam: float


PER_DECISION = Horizon(0.99, 0.95)
"""Schulman et al. 2016 (arXiv 1506.02438); a plan has a few decisions."""
PER_TOKEN = Horizon(1.0, 1.0)
"""Hu et al. 2025 (Open-Reasoner-Zero, arXiv 2503.24290): anything less forgets a reward hundreds of tokens away."""


def horizon(config: OptimizationConfig, usual: Horizon) -> Horizon:
    """What the configuration says, and what is usual for the kind of slot where it says nothing."""
    return Horizon(
        usual.gamma if config.gamma is None else config.gamma,
        usual.lam if config.lambda_gae is None else config.lambda_gae,
    )


def advantages_and_returns(
    earned: Tensor,
    act: Tensor,
    of_row: Tensor,
    row_numbers: Tensor,
    mask: Tensor,
    values: Tensor,
    horizon: Horizon,
) -> tuple[Tensor, Tensor]:
    """GAE along each trajectory, its rows one after the other, with what an act earned at its last decision.

    Args:
        earned: (acts,).
        act: (rows, slots) act of each slot.
        of_row: (rows,) trajectory of each row.
        row_numbers: (rows,) place of each row in its trajectory.
        mask: (rows, slots) bool.
        values: (rows, slots) when the slots were sampled.

    Returns:
        (rows, slots) advantages and returns.
    """
    shape = (int(of_row.max()) + 1, int(row_numbers.max()) + 1, mask.shape[1])

    def along(tensor: Tensor) -> Tensor:
        wide = tensor.new_zeros(shape)
        wide[of_row, row_numbers] = tensor
        return wide.flatten(1)

    exists = along(mask)
    rewards = formulas.at_ends(earned, along(act), exists)
    found = formulas.gae(rewards, along(values), exists, horizon.gamma, horizon.lam)
    advantages, returns = (tensor.unflatten(1, shape[1:])[of_row, row_numbers] for tensor in found)
    return advantages, returns


def value_rates(policy: Policy, config: OptimizationConfig) -> Mapping[str, float]:
    """Learning rates of the weights that do nothing but estimate values, by name."""
    return {
        f"{path}.{name}": config.value_learning_rate or VALUE_STEP / head.in_features
        for path, head in policy.named_modules()
        if isinstance(head, ValueHead)
        for name, _ in head.named_parameters()
    }


def rank_invalid(episodes: Sequence[Episode], margin: float) -> list[Episode]:
    """The episodes, compared with each other, of which those without a valid plan are worth less than all others.

    What is invalid costs nothing; worth 0, it would outrank what is valid, fails and costs something, and a planner
    would learn to write what cannot be executed.

    Args:
        margin: by how much less at least.
    """
    valid = [e.reward.total for e in episodes if e.valid and isinstance(e.reward, Reward)]
    ranked = []
    for episode in episodes:
        if not episode.valid and isinstance(episode.reward, Reward):
            value = invalid_reward(episode.reward.total, margin, valid)
            reward = Reward(value, {**episode.reward.parts, "invalid": RewardPart(value)})
            episode = replace(episode, reward=reward, metrics={**episode.metrics, **reward.contributions})
        ranked.append(episode)
    return ranked


_ATTEMPTS = (((0.0, 0.0), 0.0), ((1.0, 0.0), 0.0), ((1.0, 1.0), 1.0))
"""Rewards of the two turns, and of the episode."""


def worked_example(credit: Credit, recipe: Recipe, config: RlConfig, roles: Sequence[str]) -> Table:
    """Three attempts of the first two roles at one task, each with two turns of one token: what each act is credited.

    The same computation as in training; for PPO, with a critic that expects nothing.
    """
    episodes = [_episode(roles[:2], rewards, outcome) for rewards, outcome in _ATTEMPTS]
    task = Task(task_id="example", suite="example", instruct_prompt="")
    batch = make_batch(episodes, {"example": task}, recipe, config, 2, credit).batch
    assert batch is not None
    table = Table(title=f"agents.credit={credit.rule}: an example", title_justify="left")
    for name in ("attempt", "reward", "role", "turn", "its reward", "advantage"):
        table.add_column(name, justify="left" if name == "role" else "right")
    row = 0
    for number, ((rewards, outcome), episode) in enumerate(zip(_ATTEMPTS, episodes, strict=True), start=1):
        for trajectory in episode.trajectories:
            advantages = batch.advantages[row][batch.mask[row]].tolist()
            row += 1
            for turn, (reward, advantage) in enumerate(zip(rewards, advantages, strict=True), start=1):
                table.add_row(
                    str(number), f"{outcome:g}", trajectory.role, str(turn), f"{reward:g}", f"{advantage:+.2f}"
                )
    return table


def _episode(roles: Sequence[str], rewards: Sequence[float], outcome: float) -> Episode:
    zero = torch.zeros(1)

    def turn(number: int, reward: float) -> Turn:
        prompt = torch.arange(1 + 2 * number)  # goes on after the turn before
        token = torch.tensor([1 + 2 * number])
        return Turn(TokenDecisions(prompt, token), zero, zero == 0, zero, zero.long() - 1, 0, reward=reward)

    turns = tuple(turn(number, reward) for number, reward in enumerate(rewards))
    return Episode("example", "example", tuple(Trajectory(role, role, turns) for role in roles), Reward(outcome))
