"""What the estimate is learned from: queries, the workers that attempted them, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

Values: TypeAlias = NDArray[np.float64]
Rows: TypeAlias = NDArray[np.intp]


@dataclass(frozen=True, eq=False)
class Queries:
    """What is known before anybody is asked.

    Attributes:
        texts: (queries,) what is asked, without wording that all of them share.
        task_types: (queries,) or empty texts.
        embeddings: (queries, width) of the texts.
    """

    texts: tuple[str, ...]
    task_types: tuple[str, ...]
    embeddings: NDArray[np.floating]

    def __len__(self) -> int:
        """The number of queries."""
        return len(self.texts)

    def take(self, rows: Rows) -> Queries:
        """Some of them, in the order of `rows`."""
        return Queries(
            tuple(self.texts[row] for row in rows), tuple(self.task_types[row] for row in rows), self.embeddings[rows]
        )


@dataclass(frozen=True, eq=False)
class Attempts:
    """Outcomes of queries by columns. A column is a worker, or one of several things that a worker can achieve.

    Attributes:
        queries: that were attempted.
        score: (queries, columns) in [0, 1], NaN where nobody tried.
        cards: (columns, features) what the workers' cards say in numbers; similar cards promise similar success.
        groups: (queries,) numbers; queries of one group are held out together.
    """

    queries: Queries
    score: Values
    cards: Values
    groups: Rows

    def take(self, rows: Rows) -> Attempts:
        """Those at some queries, in the order of `rows`."""
        return Attempts(self.queries.take(rows), self.score[rows], self.cards, self.groups[rows])


def price_cards(prices: Values) -> Values:
    """(workers, 1) the logarithms of prices, in standard deviations from their mean; 0 where no price is known.

    Args:
        prices: (workers,) above 0, or NaN.
    """
    known = np.isfinite(prices) & (prices > 0)
    if known.sum() < 2:
        return np.zeros((len(prices), 1))
    logs = np.log(prices, out=np.full(prices.shape, np.nan), where=known)
    spread = np.nanstd(logs)
    return np.nan_to_num((logs - np.nanmean(logs)) / (spread if spread > 0 else 1.0))[:, None]


def described_cards(prices: Values, words: Values) -> Values:
    """(workers, 1 + width) `price_cards`, and what cards say in words: both count alike.

    Args:
        prices: (workers,) above 0, or NaN.
        words: (workers, width) embeddings of the cards.
    """
    apart = words - words.mean(axis=0)
    spread = np.sqrt((apart**2).sum(axis=1).mean())
    both = np.hstack([price_cards(prices), apart / (spread if spread > 0 else 1.0)])
    return np.asarray(both * np.sqrt(both.shape[1] / 2))
