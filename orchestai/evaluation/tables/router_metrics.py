"""The metrics of one router on one test part, over all its queries and over each bootstrap draw of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from orchestai.data.tables.outcome_table import OutcomeTable, Rows, Values
from orchestai.estimate.calibration import BINS, reliability
from orchestai.evaluation.tables.estimates import Fold, TableEstimates, nan_mean, worker_means
from orchestai.evaluation.tables.routing_metrics import (
    aiq,
    apgr,
    calls_curve,
    cpt,
    curve_through,
    hull_corners,
    hypervolume,
)

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


def calibration_errors(table: OutcomeTable, rows: Rows, weights: Values, estimates: TableEstimates) -> Values:
    """(draws,) expected calibration error over 15 bins of equal numbers of outcomes.

    Args:
        rows: that are tested.
        weights: (queries, draws) how often each of them counts.
    """
    query, worker = np.nonzero(np.isfinite(table.score[rows]))
    excess = estimates.score[rows][query, worker] - table.score[rows][query, worker]
    errors = [np.abs(excess[part] @ weights[query[part]]) for part in _bins(estimates.score[rows][query, worker])]
    return np.asarray(np.sum(errors, axis=0) / weights[query].sum(axis=0))


def chance_errors(table: OutcomeTable, rows: Rows, estimates: TableEstimates, draws: int) -> Values:
    """(1 + draws,) the calibration error if these estimates were exactly right: its mean, then that of each draw.

    A small sample strays from its probabilities by chance, so that no estimate can be measured to err by less. Outcomes
    are drawn independently; where workers fail on the same queries, chance does more than that. NaN where the table has
    scores between 0 and 1, of which nobody knows how they scatter.

    Args:
        rows: that are tested.
        draws: of an outcome, right or wrong, for each that the table has.
    """
    known = np.isfinite(table.score[rows])
    if not draws or not np.isin(table.score[rows][known], (0.0, 1.0)).all():
        return np.full(1 + draws, np.nan)
    expected, random = estimates.score[rows][known], np.random.default_rng(0)
    bins = _bins(expected)
    drawn = np.empty(draws)
    for draw in range(draws):
        excess = expected - (random.random(len(expected)) < expected)
        drawn[draw] = sum(abs(excess[part].sum()) for part in bins) / len(expected)
    return np.concatenate([[drawn.mean()], drawn])


def cost_errors(table: OutcomeTable, rows: Rows, weights: Values, estimates: TableEstimates) -> Values:
    """(draws,) |expected - true| / true mean cost, averaged over workers without those that cost nothing."""
    known = np.isfinite(table.cost_usd[rows])
    true = np.where(known, table.cost_usd[rows], 0.0).T @ weights
    expected = np.where(known, estimates.cost_usd[rows], 0.0).T @ weights
    return nan_mean(np.divide(np.abs(expected - true), true, out=np.full(true.shape, np.nan), where=true > 0))


def _bins(estimated: Values) -> list[Rows]:
    return np.array_split(np.argsort(estimated, kind="stable"), BINS)


def reliability_of(table: OutcomeTable, tested: Sequence[tuple[Rows, Values]]) -> list[list[float]]:
    """Mean estimate, mean score and number of outcomes in 15 bins, of the outcomes of all test parts together.

    Args:
        tested: rows, and (queries, workers) estimated scores of all queries, by split.
    """
    estimated = np.concatenate([score[rows].ravel() for rows, score in tested])
    true = np.concatenate([table.score[rows].ravel() for rows, _ in tested])
    return [[float(value) for value in row] for row in reliability(estimated, true)]


COIN_FLIPS: Final = "coin_flips"
SUCCESS: Final = "success"
COST: Final = "usd_per_1000"
AT_COST: Final = "success_at_cost"
_THRESHOLDS: Final = {"cpt_50": 0.5, "cpt_80": 0.8}
"""Shares of the gap that RouteLLM reports."""

Metrics: TypeAlias = dict[tuple[str, ...], Values]
"""(metric, router), or (`success_at_cost`, worker whose cost it is, router), -> (draws,) values."""


@dataclass(frozen=True, eq=False)
class HeldOutPart:
    """The queries that routers are tested on.

    Attributes:
        fold: what was learned from.
        rows: the queries.
        weights: (queries, draws) how often each counts in each draw.
    """

    fold: Fold
    rows: Rows
    weights: Values

    @property
    def table(self) -> OutcomeTable:
        """All queries, with their outcomes."""
        return self.fold.table


def costs_differ(table: OutcomeTable) -> bool:
    """Whether some worker costs more than another on average, without which there is nothing to save."""
    means = nan_mean(np.where(usable(table), table.cost_usd, np.nan))
    return bool(np.nanmin(means) < np.nanmax(means)) if np.isfinite(means).any() else False


def calls_compared(table: OutcomeTable) -> bool:
    """Whether there are two workers, and queries on which both were measured, so that calls of the stronger count."""
    return len(table.workers) == 2 and bool(np.isfinite(table.score).all(axis=1).any())


def metrics_of_workers(part: HeldOutPart) -> Metrics:
    """Success and cost of each worker alone, and all metrics of tossing coins between them."""
    table = part.table
    metrics: Metrics = {}
    cost, score = RouterCurve(table.score[part.rows].T, table.cost_usd[part.rows].T).means(part.weights)
    for index, worker in enumerate(table.workers):
        metrics[SUCCESS, worker] = score[index]
        if table.priced:
            metrics[COST, worker] = 1000 * cost[index]
    learned, tested = (single_workers(table, rows) for rows in (part.fold.train, part.rows))
    metrics |= _metrics_of_curve(part, COIN_FLIPS, learned, tested)
    cost, score = tested.means(part.weights)
    best = int(np.nanargmax(nan_mean(learned.score.T)))
    metrics[SUCCESS, COIN_FLIPS] = score[best]
    if table.priced:
        metrics[COST, COIN_FLIPS] = 1000 * cost[best]
    return metrics | _metrics_of_calls(part, COIN_FLIPS, np.zeros_like(table.score))


def metrics_of_router(part: HeldOutPart, name: str, estimates: TableEstimates) -> Metrics:
    """All metrics of the router that chooses by these estimates."""
    learned, tested = (sweep(part.table, rows, estimates) for rows in (part.fold.train, part.rows))
    metrics = _metrics_of_curve(part, name, learned, tested) | _metrics_of_calls(part, name, estimates.score)
    metrics["ece", name] = calibration_errors(part.table, part.rows, part.weights, estimates)
    metrics["ece_by_chance", name] = chance_errors(part.table, part.rows, estimates, part.weights.shape[1] - 1)
    if part.table.priced:
        metrics["cost_error", name] = cost_errors(part.table, part.rows, part.weights, estimates)
    return metrics


def _metrics_of_curve(part: HeldOutPart, name: str, learned: RouterCurve, tested: RouterCurve) -> Metrics:
    """The success without thrift; of a priced table its cost; where costs differ AIQ, hypervolume, success at a cost.

    The corners of the hull are chosen by what the training queries say and scored on the test queries. Chosen on the
    test queries, the best of many noisy points would stand above what any of them is worth.

    Args:
        learned, tested: the same points on the training queries and on those of the part.
    """
    cost, score = tested.means(part.weights)
    metrics: Metrics = {(SUCCESS, name): score[0]}
    if not part.table.priced:
        return metrics
    metrics[COST, name] = 1000 * cost[0]
    if not costs_differ(part.table):
        return metrics
    worker_cost, _ = single_workers(part.table, part.rows).means(part.weights)
    low, high = np.nanmin(worker_cost, axis=0), np.nanmax(worker_cost, axis=0)
    draws = range(part.weights.shape[1])
    known_cost, known_score = learned.means(np.ones((len(part.fold.train), 1)))
    corners = hull_corners(known_cost[:, 0], known_score[:, 0])
    curves = [curve_through(cost[corners, d], score[corners, d]) for d in draws]
    metrics["aiq", name] = np.array([aiq(curves[d], low[d], high[d]) for d in draws])
    metrics["hypervolume", name] = np.array([hypervolume(cost[:, d], score[:, d], high[d]) for d in draws])
    for worker, budgets in zip(part.table.workers, worker_cost, strict=True):
        metrics[AT_COST, worker, name] = np.array([np.interp(budgets[d], *curves[d]) for d in draws])
    return metrics


def _metrics_of_calls(part: HeldOutPart, name: str, estimated: Values) -> Metrics:
    """APGR and CPT, of a table of two workers; the one that was better in training is the strong one."""
    if not calls_compared(part.table):
        return {}
    weak, strong = np.argsort(worker_means(part.table.score[part.fold.train]))
    both = np.isfinite(part.table.score[part.rows]).all(axis=1)
    rows, weights = part.rows[both], part.weights[both]
    preference = estimated[rows, strong] - estimated[rows, weak]
    scores = part.table.score[rows, weak], part.table.score[rows, strong]
    curves = [calls_curve(preference, *scores, drawn) for drawn in weights.T]
    metrics: Metrics = {("apgr", name): np.array([apgr(*curve) for curve in curves])}
    for metric, recovered in _THRESHOLDS.items():
        metrics[metric, name] = np.array([cpt(*curve, recovered) for curve in curves])
    return metrics
