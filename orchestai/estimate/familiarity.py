"""Whether queries are like those that were attempted: what an estimate says of others is a guess."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

_RARE = 0.01
"""Share of the attempted queries themselves that is as unlike all others."""
_ALIKE = 0.6
"""From this cosine on two sentences of MiniLM's are about the same thing, however much more alike all attempts are."""
_SAMPLE = 1000
"""Queries that are enough to say how like the others they are."""


@dataclass(frozen=True, eq=False)
class Familiarity:
    """What was attempted, and how like some of it a query has to be.

    Attributes:
        embeddings: (queries, width) unit vectors of what was attempted.
        least: the cosine that 99 of 100 of them have to the one that is nearest to them, and no more than .6.
    """

    embeddings: NDArray[np.floating]
    least: float

    @classmethod
    def of(cls, embeddings: NDArray[np.floating]) -> Familiarity:
        """That of different queries, at least one."""
        rows = np.linspace(0, len(embeddings) - 1, min(len(embeddings), _SAMPLE)).astype(np.intp)
        cosines = embeddings[rows] @ embeddings.T
        cosines[np.arange(len(rows)), rows] = -1.0
        nearest = cosines.max(axis=1) if len(embeddings) > 1 else np.ones(1)
        return cls(embeddings, min(float(np.quantile(nearest, _RARE)), _ALIKE))

    def knows(self, embeddings: NDArray[np.floating]) -> NDArray[np.bool_]:
        """(n, width) unit vectors give (n,) bool."""
        return np.asarray((embeddings @ self.embeddings.T).max(axis=1) >= self.least - 1e-4)
