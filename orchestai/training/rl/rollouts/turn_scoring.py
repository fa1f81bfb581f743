"""What policies think of turns that were drawn: values for a critic, and their own log-probabilities."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from orchestai.config import RlConfig
from orchestai.tasks.task import Task
from orchestai.training.rl.microbatches import cut
from orchestai.training.rl.policy import Policy
from orchestai.training.rl.rollouts.rows import TrajectoryRow, rows_of
from orchestai.types import Episode, Trajectory, Turn


def with_scores(
    episodes: Sequence[Episode], tasks: Mapping[str, Task], policies: Mapping[str, Policy], config: RlConfig
) -> list[Episode]:
    """The episodes, their turns with the value of each decision; with `sampler_correction`, also with the policy's own
    log-probabilities beside those of what drew them.

    Args:
        tasks: by id.
        policies: of tokens, by the name that trajectories give.
    """
    wanted = [(i, k, t) for i, e in enumerate(episodes) for k, t in enumerate(e.trajectories) if t.turns]
    scored: dict[tuple[int, int], Trajectory] = {}
    for name, policy in policies.items():
        mine = [(i, k, trajectory) for i, k, trajectory in wanted if trajectory.policy == name]
        split = [rows_of(trajectory.turns) for _, _, trajectory in mine]
        given = [tasks[episodes[i].task_id] for (i, _, _), rows in zip(mine, split, strict=True) for _ in rows]
        found = iter(_scores([row for rows in split for row in rows], given, policy, config))
        for (i, k, trajectory), rows in zip(mine, split, strict=True):
            turns = list(trajectory.turns)
            for row in rows:
                logp, value = next(found)
                for number in row.turn.unique().tolist():
                    if number >= 0:
                        of_turn = row.turn == number
                        turns[number] = _scored(turns[number], logp[of_turn], value[of_turn], config)
            scored[i, k] = replace(trajectory, turns=tuple(turns))
    return [
        replace(e, trajectories=tuple(scored.get((i, k), t) for k, t in enumerate(e.trajectories)))
        for i, e in enumerate(episodes)
    ]


def _scores(
    rows: Sequence[TrajectoryRow], tasks: Sequence[Task], policy: Policy, config: RlConfig
) -> list[tuple[Tensor, Tensor]]:
    """Log-probabilities and values of each row, (slots,) each."""
    decisions = [row.decisions for row in rows]
    found: list[tuple[Tensor, Tensor]] = []
    for part in cut(decisions, policy.cost, config):
        with torch.no_grad():
            scores = policy.score(
                [tasks[i] for i in part],
                [decisions[i] for i in part],
                explore=frozenset(),
                temperature=config.temperature,
            )
        for k, i in enumerate(part):
            slots = slice(len(rows[i].turn))
            # Copies: a view would take its whole batch along to other processes.
            found.append((scores.logp[k, slots].cpu().clone(), scores.value[k, slots].cpu().clone()))
    return found


def _scored(turn: Turn, logp: Tensor, value: Tensor, config: RlConfig) -> Turn:
    turn = replace(turn, value=value)
    return turn if config.sampler_correction is None else replace(turn, logp=logp, sampler_logp=turn.logp)
