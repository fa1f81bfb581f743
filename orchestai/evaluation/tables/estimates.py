"""What an estimator of outcomes sees and gives: the row `ours`, by `orchestai.estimate`, and those to beat."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn
from torch.nn.functional import binary_cross_entropy_with_logits

from orchestai.data.near_duplicates import shared_lines, without_lines
from orchestai.data.outcome_table import OutcomeTable, Rows, Values, nan_mean
from orchestai.estimate.attempts import Attempts, Queries, price_cards
from orchestai.estimate.spending import SpendingEstimate
from orchestai.estimate.success import fit_success

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
    """

    table: OutcomeTable
    train: Rows
    features: Features
    groups: Rows
    seed: int


@dataclass(frozen=True, eq=False)
class TableEstimates:
    """What each worker will probably score, in [0, 1], and cost on each query of a table; both (queries, workers).

    Costs are NaN throughout where the table has none.
    """

    score: Values
    cost_usd: Values


Estimator: TypeAlias = Callable[[Fold], TableEstimates]

OURS = "ours"


def estimate(fold: Fold) -> TableEstimates:
    """What our estimate expects; of training queries, what estimates expected that did not know them."""
    queries, prices = queries_of(fold.table, fold.train, fold.features), nan_mean(fold.table.cost_usd[fold.train])
    fitted = fit_success(attempts_of(fold, queries, prices), seed=fold.seed)
    score = fitted.estimate.success(queries)
    score[fold.train] = fitted.held_out
    return TableEstimates(score, expected_cost(fold, queries, prices))


def queries_of(table: OutcomeTable, train: Rows, features: Features) -> Queries:
    """The table's queries, without wording that many of those to learn from share."""
    common = shared_lines([table.texts[row] for row in train])
    return Queries(tuple(without_lines(text, common) for text in table.texts), table.task_types, features)


def attempts_of(fold: Fold, queries: Queries, prices: Values) -> Attempts:
    """The attempts at the queries to learn from, by workers of these prices, (workers,)."""
    return Attempts(queries, fold.table.score, price_cards(prices), fold.groups).take(fold.train)


def expected_cost(fold: Fold, queries: Queries, prices: Values) -> Values:
    """(queries, workers) US dollars; NaN throughout where the table has no costs.

    Args:
        prices: (workers,) of a typical query, for workers whose costs on training queries are not known.
    """
    if not fold.table.priced:
        return np.full(fold.table.score.shape, np.nan)
    spent = fold.table.cost_usd[fold.train]
    return SpendingEstimate.fit(queries.take(fold.train), spent, prices).expected(queries)


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


def nearest_neighbors(fold: Fold) -> Values:
    """(queries, workers) means over the 100 training queries of the highest cosine similarity, or all if fewer.

    A training query is its own neighbor: its estimate is not for testing. A worker that none of the neighbors measured
    gets its mean over all.
    """
    learned = fold.table.score[fold.train]
    count = min(100, len(fold.train))
    overall = worker_means(learned)
    means = np.empty_like(fold.table.score)
    for row, similarity in enumerate(fold.features @ fold.features[fold.train].T):
        nearest = np.argpartition(-similarity, count - 1)[:count]
        means[row] = nan_mean(learned[nearest])
    return np.where(np.isnan(means), overall, means)


def logistic_regression(fold: Fold) -> Values:
    """(queries, workers) probabilities; an L2 penalty of half the squared weights, as scikit-learn's default has it."""
    features = torch.from_numpy(fold.features).float()
    inputs, score = features[fold.train], torch.from_numpy(fold.table.score[fold.train]).float()
    known, targets = ~score.isnan(), score.nan_to_num(0.0)
    model = nn.Linear(features.shape[1], targets.shape[1])
    nn.init.zeros_(model.weight)
    nn.init.zeros_(model.bias)
    optimizer = torch.optim.LBFGS(model.parameters(), max_iter=100, line_search_fn="strong_wolfe")

    def loss() -> float:
        optimizer.zero_grad()
        wrong = binary_cross_entropy_with_logits(model(inputs), targets, reduction="none")
        total = (wrong * known).sum() + model.weight.square().sum() / 2
        total.backward()
        return total.item()

    optimizer.step(loss)
    with torch.no_grad():
        return model(features).sigmoid().double().numpy()


def _with_task_costs(score: Callable[[Fold], Values]) -> Estimator:
    """The estimator of these scores, and of each worker's mean cost on training queries of the same type."""
    return lambda fold: TableEstimates(score(fold), means_by_task(fold, fold.table.cost_usd))


TASK_PRIOR = "task_prior"
BASELINES: dict[str, Estimator] = {
    TASK_PRIOR: _with_task_costs(lambda fold: means_by_task(fold, fold.table.score)),
    "knn": _with_task_costs(nearest_neighbors),
    "logistic_regression": _with_task_costs(logistic_regression),
    "oracle": lambda fold: TableEstimates(fold.table.score, fold.table.cost_usd),
}
"""The oracle knows what each worker scored and cost, test queries included."""
