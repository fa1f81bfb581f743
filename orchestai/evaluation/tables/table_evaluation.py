"""Estimators compared on an outcome table: several splits, one bootstrap over queries for all, paired differences."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from orchestai.data.tables.outcome_table import OutcomeTable, Rows, Values
from orchestai.evaluation.statistics import Interval
from orchestai.evaluation.tables.estimate_metrics import reliability_of
from orchestai.evaluation.tables.estimates import Estimator, Features, Fold
from orchestai.evaluation.tables.folds import TableFolds, split_table
from orchestai.evaluation.tables.report_names import refuse_taken_names
from orchestai.evaluation.tables.router_metrics import (
    COIN_FLIPS,
    HeldOutPart,
    Metrics,
    costs_differ,
    metrics_of_router,
    metrics_of_workers,
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
