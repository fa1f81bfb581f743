"""Leave one worker out: how well it is chosen when only its card and a few of its outcomes are known."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np

from orchestai.data.tables.outcome_table import OutcomeTable, Rows, Values
from orchestai.estimate.attempts import Attempts
from orchestai.estimate.success import SuccessEstimate, fit_success, learn
from orchestai.evaluation.tables.estimates import Features, Fold, TableEstimates, nan_mean
from orchestai.evaluation.tables.folds import TableFolds, split_table
from orchestai.evaluation.tables.router_metrics import (
    SUCCESS,
    HeldOutPart,
    calls_compared,
    costs_differ,
    metrics_of_router,
)
from orchestai.evaluation.tables.worker_estimate import cards_of, expected_cost, queries_of

OUTCOMES: Final = (0, 20, 50)
WITHOUT: Final = "without"
FULL: Final = "full"
_DRAWS = 201
_NEVER = -1e9
"""A score that no saving makes up for."""


@dataclass(frozen=True, eq=False)
class NewWorkerEvaluation:
    """The table's metric by what is known of one worker, as means over all workers that were left out and all splits.

    Attributes:
        folds: the splits.
        metric: `aiq`; where all workers cost the same `apgr`, and of more than two `success`.
        values: (1 + draws,) by what is known: `without` the worker, its card and 0, 20 or 50 outcomes, and `full`.
    """

    folds: TableFolds
    metric: str
    values: dict[str, Values]

    def to_dict(self) -> dict[str, Any]:
        """Each with its interval; and paired differences of few outcomes to all, and of the card alone to nothing."""
        pairs = [*((str(count), FULL) for count in OUTCOMES), ("0", WITHOUT)]
        differences = {
            f"{one} - {other}": self.folds.interval(self.values[one] - self.values[other]).to_dict()
            for one, other in pairs
            if {one, other} <= self.values.keys()
        }
        own = {known: self.folds.interval(values).to_dict() for known, values in self.values.items()}
        return {self.metric: own, "differences": differences}


def leave_one_worker_out(
    table: OutcomeTable,
    features: Features,
    *,
    seeds: Sequence[int] = (0, 1, 2),
    cards: Features | None = None,
    progress: Callable[[str], object] = lambda _: None,
) -> NewWorkerEvaluation:
    """Evaluate choices when each worker in turn is new.

    A new worker's card is known, its price at least, and its scores and costs on 0, 20 or 50 queries, drawn from those
    to learn from. How much words may say is chosen once per split, with all workers.
    """
    folds = split_table(table, seeds)
    found: dict[str, list[Values]] = {}
    metric = _metric_name(table)
    for seed, split in zip(folds.seeds, folds.splits, strict=True):
        fold = Fold(table, split.train, features, folds.groups, seed, cards)
        weights = folds.weights[split.test][:, :_DRAWS]
        prices = nan_mean(table.cost_usd[split.train])
        fitted = fit_success(_attempts(fold, prices), seed=seed).estimate
        expected = _expected(fold, fitted, prices)
        full = _metric(metric, fold, split.test, weights, expected)
        for worker, name in enumerate(table.workers):
            progress(f"split {seed}: {name} is new")
            found.setdefault(FULL, []).append(full)
            if len(table.workers) > 2:
                score = expected.score.copy()
                score[:, worker] = _NEVER
                never = replace(expected, score=score)
                found.setdefault(WITHOUT, []).append(_metric(metric, fold, split.test, weights, never))
            known = np.random.default_rng(seed).permutation(split.train[np.isfinite(table.score[split.train, worker])])
            for count in OUTCOMES:
                masked = _masked(fold, worker, known[:count])
                own = learn(_attempts(masked, prices), fitted.strengths, fitted.calibration)
                value = _metric(metric, masked, split.test, weights, _expected(masked, own, prices))
                found.setdefault(str(count), []).append(value)
    means = {known: folds.mean(values) for known, values in found.items()}
    return NewWorkerEvaluation(folds, metric, means)


def _attempts(fold: Fold, prices: Values) -> Attempts:
    """Those on the queries to learn from."""
    queries = queries_of(fold.table, fold.train, fold.features)
    return Attempts(queries, fold.table.score, cards_of(fold, prices), fold.groups).take(fold.train)


def _expected(fold: Fold, estimate: SuccessEstimate, prices: Values) -> TableEstimates:
    queries = queries_of(fold.table, fold.train, fold.features)
    return TableEstimates(estimate.success(queries), expected_cost(fold, queries, prices))


def _metric_name(table: OutcomeTable) -> str:
    if costs_differ(table):
        return "aiq"
    return "apgr" if calls_compared(table) else SUCCESS


def _metric(name: str, fold: Fold, rows: Rows, weights: Values, expected: TableEstimates) -> Values:
    """NaN where what is known of the table does not say it."""
    found = metrics_of_router(HeldOutPart(fold, rows, weights), FULL, expected)
    return found.get((name, FULL), np.full(weights.shape[1], np.nan))


def _masked(fold: Fold, worker: int, known: Rows) -> Fold:
    """The fold when of one worker only these outcomes of the training queries are known."""
    hidden = np.setdiff1d(fold.train, known)
    score, cost = fold.table.score.copy(), fold.table.cost_usd.copy()
    score[hidden, worker] = np.nan
    cost[hidden, worker] = np.nan
    return replace(fold, table=replace(fold.table, score=score, cost_usd=cost))
