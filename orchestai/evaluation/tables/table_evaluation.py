"""Estimators compared on an outcome table: several splits, one bootstrap over queries for all, paired differences."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from orchestai.data.tables.near_duplicates import near_duplicate_groups
from orchestai.data.tables.outcome_table import OutcomeTable, Rows, Values
from orchestai.data.tables.table_splits import split_by_groups
from orchestai.errors import UserError
from orchestai.evaluation.statistics import Interval
from orchestai.evaluation.tables.estimates import Estimator, Features, Fold
from orchestai.evaluation.tables.preference_sweep import usable_rows
from orchestai.evaluation.tables.router_metrics import Metrics, TestPart, metrics_of_router, metrics_of_workers

_DRAWS = 1000

Progress: TypeAlias = Callable[[str], object]


@dataclass(frozen=True, eq=False)
class TableEvaluation:
    """Metrics of routers over several splits of a table.

    Attributes:
        table: whose test parts were routed.
        seeds: of the splits.
        test_sizes: queries in the test part of each.
        metrics: means over the splits; of each the first value is over all test queries, the others over draws of them.
    """

    table: OutcomeTable
    seeds: tuple[int, ...]
    test_sizes: tuple[int, ...]
    metrics: Metrics

    def interval(self, *key: str) -> Interval:
        """A metric of a router with its 95 % bootstrap interval.

        Raises:
            KeyError: there is none.
        """
        return self._interval(self.metrics[key])

    def difference(self, metric: str, router: str, other: str) -> Interval:
        """Router minus other, over the same queries.

        Raises:
            KeyError: one of them has no such metric.
        """
        return self._interval(self.metrics[metric, router] - self.metrics[metric, other])

    def routers(self, metric: str) -> list[str]:
        """Those that have the metric, in the order in which they were evaluated."""
        return [key[-1] for key in self.metrics if key[:-1] == (metric,)]

    def _interval(self, values: Values) -> Interval:
        drawn = values[1:][~np.isnan(values[1:])]
        low, high = np.quantile(drawn, (0.025, 0.975)) if drawn.size else (np.nan, np.nan)
        return Interval(float(values[0]), float(low), float(high), sum(self.test_sizes))


def evaluate_table(
    table: OutcomeTable,
    features: Features,
    estimators: Mapping[str, Estimator],
    *,
    seeds: Sequence[int] = (0, 1, 2),
    progress: Progress = lambda _: None,
) -> TableEvaluation:
    """Learn on 80 % of the queries and choose on the rest, for each seed.

    The bootstrap draws groups of near-duplicate queries, the same for all splits and routers: differences are paired,
    and queries that several test parts share do not count as independent.

    Args:
        estimators: by the name of the router that chooses by them.
        progress: is told what is being done.

    Raises:
        UserError: the table has fewer than two workers, or too few queries to split.
    """
    if len(table.workers) < 2:
        raise UserError(f"{table.source}: a table of one worker leaves no choice; two are needed at least")
    progress("finding near-duplicate queries")
    groups = near_duplicate_groups(table.texts)
    folds = []
    for seed in seeds:
        split = split_by_groups(groups, table.task_types, seed=seed)
        train, test = usable_rows(table, split.train), usable_rows(table, split.test)
        if not train.size or not test.size:
            raise UserError(f"{table.source}: {len(table)} queries are too few to learn from some and test on others")
        folds.append((Fold(table, train, features, seed), test))
    weights = _drawn_weights(groups, [test for _, test in folds])
    parts = [TestPart(fold, test, weights[test]) for fold, test in folds]
    metrics = []
    for part in parts:
        own = metrics_of_workers(part)
        for name, estimator in estimators.items():
            progress(f"split {part.fold.seed}: {name}")
            own |= metrics_of_router(part, name, estimator(part.fold))
        metrics.append(own)
    means = {key: np.mean([own[key] for own in metrics], axis=0) for key in metrics[0]}
    return TableEvaluation(table, tuple(seeds), tuple(len(part.rows) for part in parts), means)


def _drawn_weights(groups: Rows, tests: Sequence[Rows]) -> Values:
    """(queries, 1 + draws) how often each query counts: once, then as often as its group was drawn.

    Of a small table, draws without any query of some test part are left out.
    """
    count = int(groups.max()) + 1
    drawn = np.random.default_rng(0).multinomial(count, np.full(count, 1 / count), size=_DRAWS)
    weights = np.vstack([np.ones(len(groups)), drawn[:, groups]]).T
    return weights[:, np.all([weights[test].any(axis=0) for test in tests], axis=0)]
