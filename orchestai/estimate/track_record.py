"""What was logged of the same subtask and of similar ones, blended with what the estimate expects of a new one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from orchestai.estimate.attempts import Rows, Values

_STRENGTHS: Final = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
_WIDTHS: Final = (0.0, 0.01, 0.03, 0.1)
_MOST_ROWS = 3000
"""Subtasks by which strength and width are chosen; of more, so many drawn at random."""


@dataclass(frozen=True, eq=False)
class Kernel:
    """How much what was seen of one subtask says of another, and how much beside what was expected.

    Attributes:
        width: of the distance 1 - cosine of embeddings at which an attempt counts as 1/e; 0: the same subtask alone.
        strength: attempts that the expectation counts as.
    """

    width: float
    strength: float

    def weights(self, queries: NDArray[np.floating], known: NDArray[np.floating]) -> Values:
        """(queries, known) how much each counts.

        Args:
            queries, known: (n, width) unit vectors.
        """
        distance = np.maximum(1 - queries @ known.T, 0.0)
        near = distance < 1e-5
        if self.width == 0:
            return near.astype(np.float64)
        return np.where(near, 1.0, np.exp(-distance / self.width))

    def blend(self, expected: Values, tried: Values, won: Values) -> Values:
        """The expectation after so many attempts, of which so many were won."""
        return np.asarray((self.strength * expected + won) / (self.strength + tried))


def choose_kernel(
    embeddings: NDArray[np.floating], expected: Values, folds: Sequence[tuple[Values, Values]], seed: int
) -> Kernel:
    """The kernel under which attempts held out are likeliest.

    Args:
        embeddings: (subtasks, width) unit vectors.
        expected: (subtasks, columns) probabilities without any attempt at the subtask itself.
        folds: parts of all attempts, as (subtasks, columns) tried and won.
        seed: of the subtasks that are drawn where there are too many.
    """
    rows: Rows = np.arange(len(embeddings))
    if len(rows) > _MOST_ROWS:
        rows = np.sort(np.random.default_rng(seed).choice(rows, _MOST_ROWS, replace=False))
    parts = [(tried[rows], won[rows]) for tried, won in folds]
    tried, won = sum(part[0] for part in parts), sum(part[1] for part in parts)
    best, least = Kernel(0.0, _STRENGTHS[-1]), np.inf
    for width in _WIDTHS:
        weights = Kernel(width, 1.0).weights(embeddings[rows], embeddings[rows])
        near = [
            (own_tried, own_won, weights @ (tried - own_tried), weights @ (won - own_won))
            for own_tried, own_won in parts
        ]
        for strength in _STRENGTHS:
            kernel = Kernel(width, strength)
            loss = 0.0
            for own_tried, own_won, near_tried, near_won in near:
                chance = np.clip(kernel.blend(expected[rows], near_tried, near_won), 1e-4, 1 - 1e-4)
                loss -= float((own_won * np.log(chance) + (own_tried - own_won) * np.log1p(-chance)).sum())
            if loss < least:
                best, least = kernel, loss
    return best
