"""Which examples an epoch holds, where sources of very different sizes are learned from together."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random


def draw(sources: Sequence[str], temperature: float, seed: int, epoch: int) -> list[int]:
    """As many rows as there are; a source of n examples gets a share in proportion to n ** (1 / temperature).

    At a temperature of 1 each row is there once. Above it small sources are drawn more often than large ones, as in the
    training of multilingual models (Arivazhagan et al. 2019, arXiv 1907.05019). How often the rows of one source are
    drawn differs by one at most.

    Args:
        sources: of each row.
    """
    if temperature == 1:
        return list(range(len(sources)))
    rows: dict[str, list[int]] = {}
    for row, source in enumerate(sources):
        rows.setdefault(source, []).append(row)
    weights = [len(of) ** (1 / temperature) for of in rows.values()]
    random = Random(f"{seed} {epoch}")
    drawn: list[int] = []
    share = 0.0
    for of, weight in zip(rows.values(), weights, strict=True):
        share += weight / sum(weights)
        count = round(share * len(sources)) - len(drawn)
        drawn += of * (count // len(of)) + random.sample(of, count % len(of))
    return drawn
