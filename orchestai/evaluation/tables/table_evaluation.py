"""Estimators compared on an outcome table: several splits, one bootstrap over queries for all, paired differences."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, TypeAlias

import numpy as np
from rich.markup import escape
from rich.table import Table

from orchestai.data.tables.outcome_table import OutcomeTable, Rows, Values
from orchestai.errors import UserError
from orchestai.estimate.attempts import Attempts
from orchestai.estimate.success import SuccessEstimate, fit_success, learn
from orchestai.evaluation.statistics import Interval
from orchestai.evaluation.tables.baselines import TASK_PRIOR
from orchestai.evaluation.tables.estimates import Estimator, Features, Fold, TableEstimates, nan_mean
from orchestai.evaluation.tables.folds import TableFolds, split_table
from orchestai.evaluation.tables.router_metrics import (
    COIN_FLIPS,
    COST,
    SUCCESS,
    HeldOutPart,
    Metrics,
    calls_compared,
    costs_differ,
    metrics_of_router,
    metrics_of_workers,
    reliability_of,
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


FACTS: Final = ("new_worker", "paths", "reader", "replies", "table", "versions")
"""Keys of a report that stand beside the figures, which are under the table's name."""


def refuse_taken_names(table: OutcomeTable, rows: Iterable[str]) -> None:
    """Refuse a table, or a worker, whose figures would take the place of others in a report.

    Args:
        rows: what the report has beside the workers.

    Raises:
        UserError: it is named like a fact about the report, or a worker like one of the rows.
    """
    if table.source in FACTS:
        raise UserError(
            f"{table.source}: a report has facts of its own under this name; rename the file, whose name is the table's"
        )
    if taken := set(table.workers) & set(rows):
        raise UserError(
            f"{table.source}: the worker {min(taken)!r} is called like another row of the report; rename it in the file"
        )


Progress: TypeAlias = Callable[[str], object]
_FEWEST = 30
"""Different queries, below which percentiles of bootstrap draws are narrower than chance."""


@dataclass(frozen=True, eq=False)
class TableEvaluation:
    """Metrics of routers over several splits of a table.

    Attributes:
        table: whose test parts were routed.
        folds: its splits.
        metrics: means over the splits in which they are known; of each the first value is over all test queries, the
            others over draws of them.
        reliability: by estimator, see `reliability_of`.
        uncompared: how many splits say nothing of calls of the stronger worker.
    """

    table: OutcomeTable
    folds: TableFolds
    metrics: Metrics
    reliability: dict[str, list[list[float]]]
    uncompared: int = 0

    def interval(self, *key: str) -> Interval:
        """A metric of a router with its 95 % bootstrap interval.

        Raises:
            KeyError: there is none.
        """
        return self.folds.interval(self.metrics[key])

    def difference(self, metric: str, router: str, other: str) -> Interval:
        """Router minus other, over the same queries.

        Raises:
            KeyError: one of them has no such metric.
        """
        return self.folds.interval(self.metrics[metric, router] - self.metrics[metric, other])

    @property
    def notes(self) -> list[str]:
        """What a reader of the figures has to know about the table."""
        table = self.table
        known = np.isfinite(table.score) & (np.isfinite(table.cost_usd) if table.priced else True)
        shares = dict(zip(table.workers, known.mean(axis=0).tolist(), strict=True))
        notes = [f"no outcome of {worker} can be used" for worker, share in shares.items() if share == 0]
        if sparse := [f"{worker} {share:.0%}" for worker, share in shares.items() if 0 < share < 0.99]:
            notes.append(
                f"workers were measured on different queries ({', '.join(sparse)} of them), so that their means, "
                f"{COIN_FLIPS} and the bounds of aiq compare different queries"
            )
        if table.priced and not costs_differ(table):
            notes.append("all workers cost the same, so that there is no aiq")
        if self.uncompared:
            notes.append(
                f"apgr and cpt leave out {self.uncompared} of {len(self.folds.seeds)} splits, where the worker that "
                "was better in training is not better in the test part, or no query was put to both"
            )
        if untested := self.folds.untested_types(table.task_types):
            notes.append(
                f"no query of {', '.join(untested)} was tested: near-duplicates of each other, or not measured"
            )
        if (count := self.folds.tested_groups) < _FEWEST:
            notes.append(f"only {count} different queries were tested: intervals are narrower than chance allows")
        return notes

    def routers(self, metric: str) -> list[str]:
        """Those that have the metric, in the order in which they were evaluated."""
        return [key[-1] for key in self.metrics if key[:-1] == (metric,)]


def evaluate_table(
    table: OutcomeTable,
    features: Features,
    estimators: Mapping[str, Estimator],
    *,
    seeds: Sequence[int] = (0, 1, 2),
    cards: Features | None = None,
    progress: Progress = lambda _: None,
) -> TableEvaluation:
    """Learn on 80 % of the queries and choose on the rest, for each seed.

    Args:
        estimators: by the name of the router that chooses by them.
        cards: see `Fold`.
        progress: is told what is being done.

    Raises:
        UserError: the table has fewer than two workers, too few queries to split, or a name that the report needs.
    """
    refuse_taken_names(table, {COIN_FLIPS, *estimators})
    progress("finding near-duplicate queries")
    folds = split_table(table, seeds)
    metrics = []
    estimated: dict[str, list[tuple[Rows, Values]]] = {name: [] for name in estimators}
    for seed, split in zip(folds.seeds, folds.splits, strict=True):
        fold = Fold(table, split.train, features, folds.groups, seed, cards)
        part = HeldOutPart(fold, split.test, folds.weights[split.test])
        own = metrics_of_workers(part)
        for name, estimator in estimators.items():
            progress(f"split {seed}: {name}")
            estimates = estimator(fold)
            own |= metrics_of_router(part, name, estimates)
            estimated[name].append((split.test, estimates.score))
        metrics.append(own)
    means = {key: folds.mean([own[key] for own in metrics]) for key in metrics[0]}
    reliability = {name: reliability_of(table, tested) for name, tested in estimated.items()}
    of_calls = [own["apgr", COIN_FLIPS][0] for own in metrics if ("apgr", COIN_FLIPS) in own]
    return TableEvaluation(table, folds, means, reliability, int(np.isnan(of_calls).sum()))


_OF_COSTS = ("success", COST, "aiq")
_COLUMNS = ("success", COST, "apgr", "cpt_50", "cpt_80")
_NAME = 12
"""Characters of a name that are in a line at least."""
_MAIN = ("aiq", "apgr")
"""Metrics whose differences are given."""


def to_dict(evaluation: TableEvaluation) -> dict[str, Any]:
    """`{source: {metric: {router: {mean, low, high, n}}}}`, differences by metric and `ROUTER - OTHER`, and facts.

    `reliability` has for each estimator mean estimate, mean score and number of outcomes in 15 bins.
    """
    figures: dict[str, Any] = {}
    for *path, router in evaluation.metrics:
        inner = figures
        for name in path:
            inner = inner.setdefault(name, {})
        inner[router] = evaluation.interval(*path, router).to_dict()
    figures["differences"] = {
        metric: {
            f"{router} - {other}": evaluation.difference(metric, router, other).to_dict()
            for router in evaluation.routers(metric)
            for other in evaluation.routers(metric)
            if router != other
        }
        for metric in _MAIN
        if evaluation.routers(metric)
    }
    figures["reliability"] = evaluation.reliability
    table = evaluation.table
    facts = {
        "digest": table.digest,
        "queries": len(table),
        "workers": list(table.workers),
        "unusable": dict(table.unusable),
        "notes": evaluation.notes,
        "seeds": list(evaluation.folds.seeds),
        "test_sizes": list(evaluation.folds.test_sizes),
    }
    return {table.source: figures, "table": facts}


def to_table(evaluation: TableEvaluation) -> Table:
    """A row per router, and the main metric's paired difference to the task prior; readable in 80 columns.

    What calls of the stronger of two workers bring is in the JSON alone where costs say more.
    """
    shown = _OF_COSTS if evaluation.routers("aiq") else _COLUMNS
    columns = [column for column in shown if evaluation.routers(column)]
    main = next((metric for metric in _MAIN if evaluation.routers(metric)), "")
    printed = Table(title=escape(f"{evaluation.table.source}: {len(evaluation.table)} queries, test parts of 20 %"))
    printed.add_column("router", overflow="fold", min_width=_NAME)
    for column in (*columns, f"{main} - {TASK_PRIOR}") if main else columns:
        printed.add_column(column, justify="right", no_wrap=True)
    for router in evaluation.routers("success"):
        cells = [_cell(evaluation, column, router) for column in columns]
        if {router, TASK_PRIOR} <= set(evaluation.routers(main)) and router != TASK_PRIOR:
            cells.append(_written(evaluation.difference(main, router, TASK_PRIOR)))
        printed.add_row(escape(router), *cells)
    return printed


def _cell(evaluation: TableEvaluation, metric: str, router: str) -> str:
    return f"{evaluation.interval(metric, router).mean:.3f}" if (metric, router) in evaluation.metrics else ""


def _written(interval: Interval) -> str:
    return f"{interval.mean:+.3f} [{interval.low:+.3f}, {interval.high:+.3f}]"
