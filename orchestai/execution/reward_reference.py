"""What an execution typically costs and how long it takes: what the relative form of the reward compares with."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from statistics import median

from orchestai.config import RewardsConfig


@dataclass(frozen=True)
class Reference:
    """Typical cost and latency of one execution.

    Attributes:
        cost_usd, latency_ms: medians over the executions that cost something, and took some time; 0 where none did.
        source: where they were measured, for people.
    """

    cost_usd: float
    latency_ms: float
    source: str


def typical(runs: Iterable[tuple[float, float]], source: str) -> Reference | None:
    """The reference of (cost in US dollars, latency in milliseconds) pairs; None where there are none.

    What is free, or answers at once, is left out of the medians: it would say that nothing costs anything, where half
    of a pool are free tools.
    """
    pairs = list(runs)
    if not pairs:
        return None
    cost, latency = ([value for value in values if value > 0] for values in zip(*pairs, strict=True))
    return Reference(median(cost) if cost else 0.0, median(latency) if latency else 0.0, source)


def is_needed(config: RewardsConfig) -> bool:
    """Whether rewards depend on a reference that the configuration does not give in full."""
    return config.form != "absolute" and (
        (config.cost_weight > 0 and config.cost_reference_usd is None)
        or (config.latency_weight > 0 and config.latency_reference_ms is None)
    )


def settle(config: RewardsConfig, measured: Reference | None) -> Reference | None:
    """The measured reference, but for what the configuration sets; None where something is needed and not known."""
    if measured is None and is_needed(config):
        return None
    reference = measured or Reference(0.0, 0.0, "not measured")
    if config.cost_reference_usd is not None:
        source = f"rewards.cost_reference_usd; {reference.source}"
        reference = replace(reference, cost_usd=config.cost_reference_usd, source=source)
    if config.latency_reference_ms is not None:
        source = f"rewards.latency_reference_ms; {reference.source}"
        reference = replace(reference, latency_ms=config.latency_reference_ms, source=source)
    return reference
