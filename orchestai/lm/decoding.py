"""The decoding loop: a token per row and step until all rows have left.

How a token is picked, when a row has ended and where keys and values are kept is up to the caller. A row's random
numbers come from its own seed, so that what it writes does not depend on its neighbors (up to rounding).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeAlias

import torch

if TYPE_CHECKING:
    from torch import Tensor


@dataclass
class ActiveRow:
    """A row in progress.

    Attributes:
        index: its place in the request.
        limit: most tokens that it may write.
        randoms: (limit,) float64 in [0, 1); a number per step.
        written: ids so far.
    """

    index: int
    limit: int
    randoms: Tensor
    written: list[int] = field(default_factory=list)

    @classmethod
    def seeded(cls, index: int, limit: int, seed: int) -> ActiveRow:
        generator = torch.Generator().manual_seed(seed)
        return cls(index, limit, torch.rand(limit, generator=generator, dtype=torch.float64))


class Cache(Protocol):
    """The keys and values of the active rows."""

    def keep(self, rows: Tensor) -> None:
        """Let the other rows leave; `rows` are positions in ascending order."""
        ...

    def step(self, tokens: Tensor) -> Tensor:
        """Read a token per row, (rows,); return the logits of the next ones, (rows, vocabulary) float32."""
        ...


Pick: TypeAlias = "Callable[[Tensor, Sequence[ActiveRow]], Tensor]"
"""Next token per row, (rows,) int64, from logits (rows, vocabulary) in float32."""
Remaining: TypeAlias = Callable[[Sequence[ActiveRow]], list[int]]
"""Positions of the rows that go on after their newest token, in ascending order."""


def decode(cache: Cache, logits: Tensor, rows: Sequence[ActiveRow], pick: Pick, remaining: Remaining) -> None:
    """Write into `rows` until none remains.

    Args:
        cache: has read the rows' prompts.
        logits: (rows, vocabulary) float32; of the first tokens.
    """
    while True:
        tokens = pick(logits, rows)
        for row, token in zip(rows, tokens.tolist(), strict=True):
            row.written.append(token)
        staying = remaining(rows)
        if not staying:
            return
        if len(staying) < len(rows):
            kept = torch.tensor(staying, device=tokens.device)
            cache.keep(kept)
            tokens, rows = tokens[kept], [rows[position] for position in staying]
        logits = cache.step(tokens)


def step_randoms(rows: Sequence[ActiveRow]) -> Tensor:
    """The random numbers of the present step, (rows,) float64, on the CPU."""
    return torch.stack([row.randoms[len(row.written)] for row in rows])


def inverse_sample(cumulated: Tensor, randoms: Tensor) -> Tensor:
    """Tokens (rows,) at which cumulated probabilities (rows, vocabulary) pass the random numbers (rows,).

    Rounding, which depends on the batch, changes a token only where a number lies within rounding of a border.
    """
    drawn = torch.searchsorted(cumulated, randoms[:, None], right=True)[:, 0]
    return drawn.clamp(max=cumulated.shape[-1] - 1)
