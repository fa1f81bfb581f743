"""Keys of earlier versions, and what to write instead."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

_SPLITS = "all commands divide the tasks alike now; write it as tasks.{}"

MOVED: Final[Mapping[str, str]] = {
    **{
        f"training.phase1_supervised.{key}": _SPLITS.format(key)
        for key in ("val_fraction", "test_fraction", "test_fold")
    },
    "rewards.gate_costs": (
        "in the relative form no failure is ever worth more than a success; remove it, and training.phase2_rl.beta, "
        "gamma_latency and shaped_reward with it"
    ),
    "agents.outcome_coef": (
        "write agents.turn_advantage_coef, which weighs a turn's own advantage instead of the outcome's: what "
        "outcome_coef=2 was is turn_advantage_coef=0.5"
    ),
}
"""Dotted key: one clause that says why, or what takes its place."""
