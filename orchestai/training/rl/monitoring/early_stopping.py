"""When to give up: signs, over many updates, that a policy has stopped learning or fallen apart."""

from __future__ import annotations

from collections.abc import Mapping

from orchestai.config import WatchConfig
from orchestai.training.rl.monitoring.training_state import Position

SECTION = "training.phase2_rl"
_INVALID = 10
"""Updates in a row with too many invalid plans, after which training stops."""
_FLAT = 3
"""Updates in a row without anything to learn from, after which that is said."""


def flat_warning(position: Position, metrics: Mapping[str, float]) -> str:
    """What to say of the third update in a row from which nothing could be learned; empty otherwise."""
    if position.flat_updates != _FLAT or "entropy" in metrics:
        return ""
    entropies = [f", {name} {value:.2g}" for name, value in metrics.items() if name.startswith("entropy_")]
    return (
        f"nothing to learn from: every group was flat in {_FLAT} updates in a row, at a success of "
        f"{metrics['success']:.1%}{''.join(entropies)}"
    )


def watch(
    position: Position, metrics: Mapping[str, float], config: WatchConfig, max_invalid_share: float | None
) -> str:
    """Count in `position` for how many updates in a row each sign has shown, and say why to stop, if so.

    Args:
        metrics: of the update; without `entropy` where nothing could be learned from it, since every advantage is 0.
        max_invalid_share: of plans (`PlansConfig`); None where none are made.
    """
    learned = "entropy" in metrics
    position.flat_updates = 0 if learned else position.flat_updates + 1
    many = max_invalid_share is not None and 1 - metrics["valid_share"] > max_invalid_share
    position.invalid_updates = position.invalid_updates + 1 if many else 0

    if position.flat_updates >= config.flat_patience:
        return (
            f"nothing could be learned in {config.flat_patience} updates in a row, because no reward differed from "
            f"what it is compared with (see flat_group_share): raise {SECTION}.temperature or explore more, or the "
            "tasks are all solved or all too hard"
        )
    if position.invalid_updates >= _INVALID:
        return (
            f"more plans than {SECTION}.max_invalid_share={max_invalid_share:g} were invalid in {_INVALID} "
            f"updates in a row (now {1 - metrics['valid_share']:.0%}): go on from an earlier checkpoint with a lower "
            f"{SECTION}.learning_rate or a higher kl_coef, or train phase 1 for longer"
        )
    return ""
