"""How old the weights are by which decisions were drawn, when they are learned from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from orchestai.config import RlConfig
from orchestai.outcome import Unscorable
from orchestai.types import Episode


def refuse_stale(episodes: Sequence[Episode], versions: Mapping[str, int], config: RlConfig) -> list[Episode]:
    """The episodes, those unscorable that hold decisions drawn over `max_staleness` updates ago (any, if on policy).

    Args:
        versions: of each policy now.
    """
    bound = 0 if config.on_policy else config.max_staleness
    checked = []
    for episode in episodes:
        age = max(_ages(episode, versions, config), default=0.0)
        if age > bound:
            reason = f"stale: it was drawn {age:g} updates ago, and training.phase2_rl allows {bound}"
            episode = replace(episode, reward=Unscorable("stale", reason))
        checked.append(episode)
    return checked


def describe_staleness(episodes: Sequence[Episode], versions: Mapping[str, int], config: RlConfig) -> dict[str, float]:
    """Mean and maximum age of the turns, in updates."""
    ages = [age for episode in episodes for age in _ages(episode, versions, config)]
    return {"staleness": sum(ages) / max(len(ages), 1), "max_staleness": max(ages, default=0.0)}


def _ages(episode: Episode, versions: Mapping[str, int], config: RlConfig) -> list[float]:
    steps = config.num_iterations * config.num_minibatches
    return [
        (versions[trajectory.policy] - turn.policy_version) / steps
        for trajectory in episode.trajectories
        for turn in trajectory.turns
    ]
