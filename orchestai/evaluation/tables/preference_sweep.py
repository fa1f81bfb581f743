"""From estimates to choices, with weights on cost from none to so much that the cheapest worker wins."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from orchestai.data.tables.outcome_table import OutcomeTable, Rows, Values
from orchestai.evaluation.tables.estimates import TableEstimates, nan_mean

_WEIGHTS = np.concatenate([[0.0], np.logspace(-3, 4, 120)])
"""Score that is given up for the mean cost of the most expensive worker."""


@dataclass(frozen=True, eq=False)
class RouterCurve:
    """What one router scored and cost at each weight on cost, none first. Means leave a NaN out.

    Attributes:
        score: (points, queries)
        cost_usd: (points, queries); NaN throughout where the table has no costs.
    """

    score: Values
    cost_usd: Values

    def means(self, weights: Values) -> tuple[Values, Values]:
        """(points, draws) mean cost and mean score.

        Args:
            weights: (queries, draws) how often each query counts.
        """
        return _weighted_mean(self.cost_usd, weights), _weighted_mean(self.score, weights)


def sweep(table: OutcomeTable, rows: Rows, estimates: TableEstimates) -> RouterCurve:
    """The curve of the worker with the highest `score - weight * cost` on each query, over 121 weights.

    The weights are the same for all rows of a table; where nothing is expected to cost, there is one point. A worker
    whose outcome is missing from the table cannot be chosen, as nobody knows what would have come of it.

    Args:
        rows: of the table; each has an outcome.
    """
    measured = usable(table)[rows]
    score, cost = estimates.score[rows], np.zeros((len(rows), len(table.workers)))
    weights = _WEIGHTS[:1]
    if table.priced:
        cost = estimates.cost_usd[rows]
        highest = np.nanmax(nan_mean(estimates.cost_usd))
        weights = _WEIGHTS / highest if highest > 0 else weights
    choices = np.stack([_choose(score - weight * cost, cost, measured) for weight in weights])
    return RouterCurve(table.score[rows, choices], table.cost_usd[rows, choices])


def single_workers(table: OutcomeTable, rows: Rows) -> RouterCurve:
    """A point for each worker, asked on every query; queries where it cannot be chosen are left out of its mean."""
    known = usable(table)[rows]
    score, cost = (np.where(known, values[rows], np.nan).T for values in (table.score, table.cost_usd))
    return RouterCurve(score, cost)


def usable(table: OutcomeTable) -> NDArray[np.bool_]:
    """(queries, workers) where a worker's score is known, and its cost if the table has any: there it can be chosen."""
    known: NDArray[np.bool_] = np.isfinite(table.score)
    return known & np.isfinite(table.cost_usd) if table.priced else known


def usable_rows(table: OutcomeTable, rows: Rows) -> Rows:
    """Those on which some worker can be chosen."""
    return rows[usable(table)[rows].any(axis=1)]


def _choose(utility: Values, cost: Values, measured: NDArray[np.bool_]) -> NDArray[np.intp]:
    """(queries,) the best worker; of equally good ones the cheapest."""
    best = np.where(measured, utility, -np.inf)
    tied = measured & (best >= best.max(axis=1, keepdims=True))
    return np.where(tied, cost, np.inf).argmin(axis=1)


def _weighted_mean(values: Values, weights: Values) -> Values:
    known = np.isfinite(values)
    total = known @ weights
    return np.divide(np.where(known, values, 0.0) @ weights, total, out=np.full(total.shape, np.nan), where=total > 0)
