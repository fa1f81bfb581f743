"""Episodes in figures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from orchestai.outcome import Scored, Unscorable
from orchestai.rewards.reward import REWARD_PARTS
from orchestai.training.rl.batch import Learning
from orchestai.training.rl.episode import Episode

EXECUTION_FIGURES = ("success", "tests", "cost_usd", "latency_ms", "checks", *REWARD_PARTS)


def describe_episodes(episodes: Sequence[Episode]) -> dict[str, float]:
    """Means over the episodes that could be judged, and the shares of valid plans and of unscorable episodes.

    An invalid plan counts as a failure that costs nothing.
    """
    judged = [(e.outcome.value, e) for e in episodes if isinstance(e.outcome, Scored)]
    count = max(len(judged), 1)
    mean = sum(value for value, _ in judged) / count
    return {
        "reward": mean,
        "reward_std": math.sqrt(sum((value - mean) ** 2 for value, _ in judged) / count),
        **{name: sum(e.metrics.get(name, 0.0) for _, e in judged) / count for name in EXECUTION_FIGURES},
        "valid_share": sum(e.valid for e in episodes) / max(len(episodes), 1),
        "raw_valid_share": sum(e.raw_valid for e in episodes) / max(len(episodes), 1),
        "unscorable_share": 1 - len(judged) / max(len(episodes), 1),
    }


def describe_batch(episodes: Sequence[Episode], learning: Learning) -> dict[str, float]:
    """`describe_episodes`, and how much there is to learn: slots, spread of the advantages, share of flat groups."""
    advantages = learning.advantages
    slots = sum(int(turn.mask.sum()) for e in episodes for turn in e.turns)
    return describe_episodes(episodes) | {
        "advantage_mean": float(advantages.mean()) if len(advantages) else 0.0,
        "advantage_std": float(advantages.std(correction=0)) if len(advantages) else 0.0,
        "flat_group_share": learning.flat_groups / learning.groups if learning.groups else 1.0,
        "slots_per_plan": slots / max(len(episodes), 1),
        **learning.sampler,
    }


def sample_rows(episodes: Sequence[Episode]) -> list[dict[str, Any]]:
    """Episodes for people to read, as JSON-ready rows."""
    return [
        {
            "task_id": e.task_id,
            "reward": e.outcome.value if isinstance(e.outcome, Scored) else None,
            "unscorable": e.outcome.reason if isinstance(e.outcome, Unscorable) else "",
            "valid": e.valid,
            **{name: round(value, 6) for name, value in e.metrics.items()},
            "plan": e.text,
        }
        for e in episodes
    ]
