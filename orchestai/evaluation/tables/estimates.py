"""What an estimator of outcomes sees and gives: the one interface of baselines and checkpoints."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from orchestai.data.tables.outcome_table import OutcomeTable, Rows, Values

Features: TypeAlias = NDArray[np.float32]


@dataclass(frozen=True, eq=False)
class Fold:
    """A table with the rows to learn from; what the others scored and cost is not to be looked at.

    Attributes:
        table: with all queries.
        train: rows to learn from.
        features: (queries, width) unit vectors of the queries' texts.
        groups: (queries,) numbers of groups of near-duplicates.
        seed: of whatever an estimator draws.
        cards: (workers, width) embeddings of the workers' cards; None where nobody describes them.
    """

    table: OutcomeTable
    train: Rows
    features: Features
    groups: Rows
    seed: int
    cards: Features | None = None


@dataclass(frozen=True, eq=False)
class TableEstimates:
    """What each worker will probably score and cost on each query of a table.

    Attributes:
        score: (queries, workers) in [0, 1].
        cost_usd: (queries, workers) US dollars; NaN throughout where the table has no costs.
    """

    score: Values
    cost_usd: Values


Estimator: TypeAlias = Callable[[Fold], TableEstimates]


def with_task_costs(score: Callable[[Fold], Values]) -> Estimator:
    """The estimator of these scores, and of each worker's mean cost on training queries of the same type."""

    def estimate(fold: Fold) -> TableEstimates:
        return TableEstimates(score(fold), means_by_task(fold, fold.table.cost_usd))

    return estimate


def means_by_task(fold: Fold, values: Values) -> Values:
    """(queries, workers) each worker's mean of `values` over training queries of the same type.

    Where a worker was not measured on that type, its mean over all; where never, that of all workers.
    """
    types = np.array(fold.table.task_types)
    overall = worker_means(values[fold.train])
    means = np.empty_like(values)
    for task_type in np.unique(types):
        own = nan_mean(values[fold.train[types[fold.train] == task_type]])
        means[types == task_type] = np.where(np.isnan(own), overall, own)
    return means


def worker_means(values: Values) -> Values:
    """(workers,) means of the measured cells; of a worker without any, that of all workers."""
    own = nan_mean(values)
    return np.where(np.isnan(own), nan_mean(values.reshape(-1, 1))[0], own)


def nan_mean(values: Values) -> Values:
    """Means over the first axis without NaN; NaN where there is nothing else."""
    known = ~np.isnan(values)
    counts = known.sum(axis=0)
    sums = np.where(known, values, 0.0).sum(axis=0)
    return np.divide(sums, counts, out=np.full(sums.shape, np.nan), where=counts > 0)
