"""What the estimate is learned from: queries, the workers that attempted them, and what came of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

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
        cards: (columns, features) of `price_cards`; similar cards promise similar success.
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
    """(workers, 1) the logarithms of prices, in standard deviations from their mean; 0 where no price is known."""
    known = np.isfinite(prices) & (prices > 0)
    if known.sum() < 2:
        return np.zeros((len(prices), 1))
    logs = np.log(prices, out=np.full(prices.shape, np.nan), where=known)
    spread = np.nanstd(logs)
    return np.nan_to_num((logs - np.nanmean(logs)) / (spread if spread > 0 else 1.0))[:, None]


FEWEST: Final = 20
"""Executions below which no estimate is learned, and attempts of a type below which nobody knows a worker's chances."""
WHOLE: Final = "whole task"
"""The task type of a task that is asked for as it stands."""
PlannedStep: TypeAlias = tuple[int, tuple[int, ...]]
"""A row of the subtasks, and the workers that may be asked for it, by index and in order."""


@dataclass(frozen=True, eq=False)
class StepAttempts:
    """Every worker that was asked for a subtask in executions that were judged.

    Attributes:
        workers: of the pool.
        texts, task_types: (subtasks,) each different subtask once.
        groups: (subtasks,) numbers; subtasks of one group say nearly the same.
        prices: (workers,) US dollars of a typical request by the cards.
        planned: for each execution its steps.
        succeeded: (executions,) whether the answer had the full score.
        spent_usd, seconds: (executions,) what each took, `seconds` on its critical path; NaN where nobody measured.
        execution, row, worker: (attempts,) indices.
        passed: (attempts,) whether there was an answer that its subtask's own check did not refuse.
        right: (attempts,) how probably it was right; 0 where it did not pass, NaN where nothing is known.
        spending: (attempts, 3) US dollars, seconds and tokens; NaN where nobody measured.
    """

    workers: tuple[str, ...]
    texts: tuple[str, ...]
    task_types: tuple[str, ...]
    groups: Rows
    prices: Values
    planned: tuple[tuple[PlannedStep, ...], ...]
    succeeded: Values
    spent_usd: Values
    seconds: Values
    execution: Rows
    row: Rows
    worker: Rows
    passed: Values
    right: Values
    spending: Values

    def counts(self, which: Values | None = None) -> tuple[Values, Values]:
        """(subtasks, 2 * workers) how often each was tried, and how often it succeeded.

        A worker's first column is of passing its check, the second, `workers` further, of being right where it passed.

        Args:
            which: (attempts,) bool, those that count; None is all.
        """
        count = len(self.workers)
        tried, won = np.zeros((len(self.texts), 2 * count)), np.zeros((len(self.texts), 2 * count))
        kept = np.ones(len(self.row), dtype=bool) if which is None else which.astype(bool)
        row, worker, passed, right = self.row[kept], self.worker[kept], self.passed[kept], self.right[kept]
        np.add.at(tried, (row, worker), 1.0)
        np.add.at(won, (row, worker), passed)
        np.add.at(tried, (row, worker + count), passed * np.isfinite(right))
        np.add.at(won, (row, worker + count), np.nan_to_num(right))
        return tried, won

    def spent(self) -> tuple[Values, Values]:
        """(subtasks, workers) how often each was asked, and (3, subtasks, workers) what that took in the mean.

        A mean is of what was measured, NaN where nothing was.
        """
        shape = len(self.texts), len(self.workers)
        asked, totals, measured = np.zeros(shape), np.zeros((3, *shape)), np.zeros((3, *shape))
        cells = self.row, self.worker
        np.add.at(asked, cells, 1.0)
        for total, count, values in zip(totals, measured, self.spending.T, strict=True):
            np.add.at(total, cells, np.nan_to_num(values))
            np.add.at(count, cells, np.isfinite(values))
        return asked, np.divide(totals, measured, out=np.full_like(totals, np.nan), where=measured > 0)
