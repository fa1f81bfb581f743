"""Whose doing a reward was: the whole episode's, each role's, each act's, or each step's of a plan.

A rule turns the rewards of acts into one advantage per act. How rewards of a group are compared (with the group's mean,
in standard deviations or not, ...) is up to the algorithm; which rewards, and within which groups, is up to the rule.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeAlias

import torch
from torch import Tensor

from orchestai.config.agents import CreditRule
from orchestai.errors import UserError
from orchestai.outcome import Reward
from orchestai.training.rl import formulas
from orchestai.training.rl.formulas import GroupAdvantages
from orchestai.types import Episode, Trajectory

Compare: TypeAlias = Callable[[Tensor, Tensor, Tensor | None], GroupAdvantages]
"""From (rows,) rewards and (rows,) integer ids of groups and of units, of which each counts once in its group however
many rows it has (None: every row is one), to advantages, as the algorithm compares them."""


class Acts(NamedTuple):
    """What is known of all acts, trajectory after trajectory in order of time; every tensor is (acts,).

    Attributes:
        attempt: int64; which episode.
        trajectory, number: int64; which trajectory, and which of its turns, from 0.
        last: bool; whether it is its trajectory's last.
        outcome: float64; reward of the episode.
        role_reward: float64; of the trajectory where it has its own, else of the episode.
        reward: float64; the act's own, 0 where it has none.
        rewarded: bool; whether it has one.
        group: int64; the same for acts of one role in episodes that are compared.
        place: int64; likewise, of the same turn number.
        node: int64; likewise, where the workflow said which acts belong together; else `place`.
    """

    attempt: Tensor
    trajectory: Tensor
    number: Tensor
    last: Tensor
    outcome: Tensor
    role_reward: Tensor
    reward: Tensor
    rewarded: Tensor
    group: Tensor
    place: Tensor
    node: Tensor


def acts_of(trajectories: Sequence[tuple[Episode, Trajectory]]) -> Acts:
    """The acts of trajectories of episodes that were scored; each trajectory has at least one."""
    every = [
        (k, n, episode, trajectory, turn)
        for k, (episode, trajectory) in enumerate(trajectories)
        for n, turn in enumerate(trajectory.turns)
    ]

    def numbers(values: Sequence[float]) -> Tensor:
        return torch.tensor(values, dtype=torch.float64)

    def named(keys: Sequence[Hashable]) -> Tensor:
        number = {key: i for i, key in enumerate(dict.fromkeys(keys))}
        return torch.tensor([number[key] for key in keys], dtype=torch.long)

    groups = [(episode.group_id, trajectory.role) for _, _, episode, trajectory, _ in every]
    places = [(*group, n) for group, (_, n, *_) in zip(groups, every, strict=True)]
    return Acts(
        attempt=named([id(episode) for _, _, episode, _, _ in every]),
        trajectory=torch.tensor([k for k, *_ in every], dtype=torch.long),
        number=torch.tensor([n for _, n, *_ in every], dtype=torch.long),
        last=torch.tensor([n == len(trajectory.turns) - 1 for _, n, _, trajectory, _ in every], dtype=torch.bool),
        outcome=numbers([_scored(episode) for _, _, episode, _, _ in every]),
        role_reward=numbers(
            [
                _scored(episode) if trajectory.reward is None else trajectory.reward
                for *_, episode, trajectory, _ in every
            ]
        ),
        reward=numbers([turn.reward or 0.0 for *_, turn in every]),
        rewarded=torch.tensor([turn.reward is not None for *_, turn in every], dtype=torch.bool),
        group=named(groups),
        place=named(places),
        node=named(
            [
                (group, turn.group) if turn.group else place
                for group, place, (*_, turn) in zip(groups, places, every, strict=True)
            ]
        ),
    )


def _scored(episode: Episode) -> float:
    assert isinstance(episode.reward, Reward)
    return episode.reward.total


@dataclass(frozen=True)
class Credit:
    """A rule with its coefficients.

    Attributes:
        rule: see the functions below, which have its name.
        turn_advantage_coef: turn: weight of an act's own advantage beside the outcome's, but for the last of several.
        gamma: return_to_go: discount per turn.
        unit: rewards are divided by it before a critic learns to foresee them.
        by_step: whether a decision is credited with what its own step of a plan earned (`step_advantages`).
        telling: share of `unit` by which plans must differ that differ in cost and latency alone.
    """

    rule: CreditRule = "role"
    turn_advantage_coef: float = 1.0
    gamma: float = 1.0
    unit: float = 1.0
    by_step: bool = False
    telling: float = 0.0

    def advantages(self, acts: Acts, compare: Compare) -> GroupAdvantages:
        """(acts,) advantages; groups without any are flat."""
        if self.rule == "outcome":
            return outcome(acts, compare)
        if self.rule == "role":
            return role(acts, compare)
        if self.rule == "turn":
            return turn(acts, compare, self.turn_advantage_coef)
        if self.rule == "return_to_go":
            return return_to_go(acts, compare, self.gamma)
        return joint(acts)

    def ignored(self, acts: Acts) -> list[str]:
        """Rewards that were given and that the rule does not look at."""
        own = acts.role_reward != acts.outcome
        if self.rule == "joint":  # seen where an act has no reward of its own
            own = own & ~torch.isin(acts.trajectory, acts.trajectory[~acts.rewarded])
        given = {
            "roles": self.rule in ("outcome", "joint") and bool(own.any()),
            "acts": self.rule in ("outcome", "role") and bool(acts.rewarded.any()),
            "last acts": self.rule == "turn" and bool((acts.rewarded & acts.last & (acts.number > 0)).any()),
        }
        return [name for name, ignored in given.items() if ignored]

    def rewards(self, acts: Acts) -> Tensor:
        """(acts,) what is earned right after each act, whose discounted sum a critic learns to foresee."""
        if self.rule == "outcome":
            return torch.where(acts.last, acts.outcome, 0.0)
        if self.rule == "role":
            return torch.where(acts.last, acts.role_reward, 0.0)
        if self.rule in ("turn", "return_to_go"):
            return earned(acts)
        raise UserError(
            f"agents.credit: {self.rule} compares acts with each other, which PPO's critic does not; choose outcome, "
            "role, turn or return_to_go, or training.phase2_rl.algorithm=GRPO"
        )


def outcome(acts: Acts, compare: Compare) -> GroupAdvantages:
    """Every act is credited with its episode's reward, whatever its role earned (GRPO, arXiv 2402.03300).

    Compared among the attempts of one role and task.
    """
    return _of_trajectories(acts, acts.outcome, compare)


def role(acts: Acts, compare: Compare) -> GroupAdvantages:
    """Every act is credited with its role's reward, or the episode's where the role has none of its own.

    Compared among the trajectories of one role and task; those of one attempt count together as one.
    """
    return _of_trajectories(acts, acts.role_reward, compare)


def turn(acts: Acts, compare: Compare, turn_advantage_coef: float) -> GroupAdvantages:
    """MT-GRPO: A_k = A(outcome) + turn_advantage_coef A(turn reward); for the last of several acts, A(outcome) alone.

    Zeng et al. 2025, "Reinforcing multi-turn reasoning in LLM agents via turn-level credit assignment" (arXiv
    2505.11821), which has two turns; here with any number. Turn rewards are compared among all acts of one role, task
    and turn number, where one without a reward has 0: who answers at once is below who calls. Outcomes (`role`) are
    compared among trajectories.
    """
    final = role(acts, compare).values
    own = compare(torch.where(acts.rewarded, acts.reward, 0.0), acts.place, acts.attempt).values
    answer = acts.last & (acts.number > 0)
    values = torch.where(answer, final, final + turn_advantage_coef * own)
    told = torch.zeros(int(acts.group.max()) + 1, dtype=torch.bool).index_put(
        (acts.group,), values != 0, accumulate=True
    )
    return GroupAdvantages(values, len(told), int((~told).sum()))


def return_to_go(acts: Acts, compare: Compare, gamma: float) -> GroupAdvantages:
    """Every act is credited with what followed it: R_k = sum_l gamma^l r_{k+l} (GTPO, Ding et al. 2025).

    r_k is the act's own reward; the role's, or else the episode's, is added to the last. Compared among acts of one
    role, task and turn number.
    """
    shape = (int(acts.trajectory.max()) + 1, int(acts.number.max()) + 1)
    rewards = torch.zeros(shape, dtype=torch.float64)
    exists = torch.zeros(shape, dtype=torch.bool)
    rewards[acts.trajectory, acts.number] = earned(acts)
    exists[acts.trajectory, acts.number] = True
    returns = formulas.returns_to_go(rewards, exists, gamma)[acts.trajectory, acts.number]
    return compare(returns, acts.place, acts.attempt)


def joint(acts: Acts) -> GroupAdvantages:
    """MAGRPO: the return of the joint action that the act was part of, above the mean of its node.

    Liu et al. 2025, "LLM collaboration with multi-agent reinforcement learning" (arXiv 2508.04652): no standard
    deviation. The workflow gives the returns as the acts' own rewards, and says which acts are of one node; they are
    compared with those of the same role. An act without one has its role's.
    """
    everything, own = torch.ones_like(acts.last), torch.where(acts.rewarded, acts.reward, acts.role_reward)
    return formulas.group_advantages(own, acts.node, everything, scale="none")


def earned(acts: Acts) -> Tensor:
    """(acts,) the act's own reward, and after the last the role's or the episode's."""
    return acts.reward + torch.where(acts.last, acts.role_reward, 0.0)


def _of_trajectories(acts: Acts, rewards: Tensor, compare: Compare) -> GroupAdvantages:
    """Compare trajectories: an attempt counts once in its group's mean, however many conversations and acts it has."""
    found = compare(rewards[acts.last], acts.group[acts.last], acts.attempt[acts.last])
    return found._replace(values=found.values[acts.trajectory])


def step_advantages(rewards: Tensor, own: Tensor, failed: Tensor, steps: Tensor, group_ids: Tensor) -> Tensor:
    """Advantages of steps that are answered independently of each other, as in the `dataflow` assembler.

    What a step earned alone (its price, its visible check) is credited to it alone. The rest of the reward is credited
    to a step only where all others passed their checks: if one of them failed, so has the plan, whoever did this step.
    Both are compared with the mean of the same step in the group. As the others' checks do not depend on who does this
    step, both parts point where the plan's reward points, without the noise of failures elsewhere. Their weights are
    not quite equal: a mean over k plans keeps (k - 1) / k of a difference, so where few plans tell, a price weighs
    somewhat more than success.

    Args:
        rewards: (rows,) of plans.
        own: (rows, n) part of the reward that each step earned alone.
        failed: (rows, n) bool; steps of which the visible check failed.
        steps: (rows, n) bool; the steps that exist. Plans of one group have the same steps.
        group_ids: (rows,) integers.

    Returns:
        (rows, n), 0 where there is no step.
    """
    shared = rewards - (own * steps).sum(1)
    failures = (failed & steps).sum(1, keepdim=True) - (failed & steps).long()
    telling = steps & (failures == 0)
    advantages = torch.zeros_like(own)
    for step in range(own.shape[1]):
        for part, counted in ((own[:, step], steps[:, step]), (shared, telling[:, step])):
            advantages[:, step] += formulas.group_advantages(part, group_ids, counted, scale="none").values
    return advantages
