"""When to give up: signs, over many updates, that a policy has stopped learning or fallen apart."""

from __future__ import annotations

from collections.abc import Mapping

from orchestai.config import WatchConfig
from orchestai.training.rl.monitoring.training_state import Position

SECTION = "training.phase2_rl"


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
    if learned:
        low = config.min_entropy is not None and metrics["entropy"] < config.min_entropy
        position.certain_updates = position.certain_updates + 1 if low else 0
    many = max_invalid_share is not None and 1 - metrics["valid_share"] > max_invalid_share
    position.invalid_updates = position.invalid_updates + 1 if many else 0

    patience = config.collapse_patience
    if position.flat_updates >= config.flat_patience:
        return (
            f"nothing could be learned in {config.flat_patience} updates in a row, because no reward differed from "
            f"what it is compared with (see flat_group_share): raise {SECTION}.temperature or explore more, or the "
            "tasks are all solved or all too hard"
        )
    if position.certain_updates >= patience:
        return (
            f"the entropy stayed below {SECTION}.min_entropy={config.min_entropy:g} for {patience} updates (now "
            f"{metrics['entropy']:.3g}), so plans hardly vary any more: go on from an earlier checkpoint with a higher "
            f"{SECTION}.entropy_coef or kl_coef, or a lower learning_rate"
        )
    if position.invalid_updates >= patience:
        return (
            f"more plans than {SECTION}.max_invalid_share={max_invalid_share:g} were invalid in {patience} "
            f"updates in a row (now {1 - metrics['valid_share']:.0%}): go on from an earlier checkpoint with a lower "
            f"{SECTION}.learning_rate or a higher kl_coef, or train phase 1 for longer"
        )
    return ""
