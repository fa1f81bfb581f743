"""The learning rate over a run of phase 2, from where training stands alone, so that a resumed run has the same."""

from __future__ import annotations

import math

from orchestai.config import OptimizationConfig


def rate_factor(config: OptimizationConfig, update: int, progress: float) -> float:
    """The share of `learning_rate` that an update learns with: its schedule's, times the warm-up's.

    Args:
        update: updates before this one.
        progress: share of the run before this update.
    """
    warm = min(1.0, (update + 1) / config.warmup_updates) if config.warmup_updates else 1.0
    decay = {"constant": 1.0, "linear": 1 - progress, "cosine": (1 + math.cos(math.pi * progress)) / 2}
    return warm * decay[config.lr_schedule]
