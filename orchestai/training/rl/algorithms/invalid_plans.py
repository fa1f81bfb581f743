"""Rewards of episodes that are invalid (no plan, or a budget spent): below those of all that they are compared with."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from orchestai.execution.reward import invalid_reward
from orchestai.outcome import Reward, RewardPart
from orchestai.types import Episode


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
