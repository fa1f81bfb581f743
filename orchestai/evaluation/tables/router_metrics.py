"""The metrics of one router on one test part, over all its queries and over each bootstrap draw of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np

from orchestai.data.tables.outcome_table import OutcomeTable, Rows, Values
from orchestai.evaluation.tables.estimate_metrics import calibration_errors, chance_errors, cost_errors
from orchestai.evaluation.tables.estimates import Fold, TableEstimates, nan_mean, worker_means
from orchestai.evaluation.tables.preference_sweep import RouterCurve, single_workers, sweep, usable
from orchestai.evaluation.tables.routing_metrics import (
    aiq,
    apgr,
    calls_curve,
    cpt,
    curve_through,
    hull_corners,
    hypervolume,
)

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
