"""A worked example of the configured rule of credit, so that nobody has to guess what a reward does."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from rich.table import Table

from orchestai.config import RlConfig
from orchestai.outcome import Reward
from orchestai.tasks.task import Task
from orchestai.training.rl.advantages import make_batch
from orchestai.training.rl.algorithms.credit import Credit
from orchestai.training.rl.algorithms.recipes import Recipe
from orchestai.types import Episode, TokenDecisions, Trajectory, Turn

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
