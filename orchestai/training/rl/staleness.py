"""How old the weights are by which plans were drawn, when they are learned from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from orchestai.config import Phase2Config
from orchestai.outcome import Unscorable
from orchestai.training.rl.episode import Episode


def refuse_stale(episodes: Sequence[Episode], policy_version: int, config: Phase2Config) -> list[Episode]:
    """The episodes, those unscorable whose plan was drawn more than `max_staleness` updates ago (any, if on policy)."""
    bound = 0 if config.on_policy else config.max_staleness
    checked = []
    for episode in episodes:
        age = max(_ages(episode, policy_version, config), default=0.0)
        if age > bound:
            reason = f"stale: its plan was drawn {age:g} updates ago, and training.phase2_rl allows {bound}"
            episode = replace(episode, outcome=Unscorable(reason))
        checked.append(episode)
    return checked


def describe_staleness(episodes: Sequence[Episode], policy_version: int, config: Phase2Config) -> dict[str, float]:
    """Mean and maximum age of the plans, in updates."""
    ages = [age for episode in episodes for age in _ages(episode, policy_version, config)]
    return {"staleness": sum(ages) / max(len(ages), 1), "max_staleness": max(ages, default=0.0)}


def _ages(episode: Episode, policy_version: int, config: Phase2Config) -> list[float]:
    steps = config.num_iterations * config.num_minibatches
    return [(policy_version - turn.policy_version) / steps for turn in episode.turns]
