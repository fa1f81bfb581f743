"""Texts in batches of like length, so that little of a batch is padding."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

PLAN_BATCH = 64
"""Instructions that are planned in one forward pass, at most."""


def length_batches(lengths: Mapping[int, int], size: int = PLAN_BATCH) -> Iterator[list[int]]:
    """The keys of `lengths`, shortest first, `size` at a time; equals keep their order."""
    ordered = sorted(lengths, key=lengths.__getitem__)
    return (ordered[start : start + size] for start in range(0, len(ordered), size))
