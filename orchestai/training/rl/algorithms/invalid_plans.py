"""Rewards of episodes without a valid plan: below those of every valid plan that they are compared with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from orchestai.execution.reward import invalid_reward
from orchestai.outcome import Scored
from orchestai.types import Episode


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
