"""The row `ours`: the estimate of `orchestai.estimate`, learned from the table's training queries."""

from __future__ import annotations

import numpy as np

from orchestai.data.tables.near_duplicates import shared_lines, without_lines
from orchestai.data.tables.outcome_table import OutcomeTable, Rows
from orchestai.estimate.attempts import Attempts, Queries, Values, described_cards, price_cards
from orchestai.estimate.spending import SpendingEstimate
from orchestai.estimate.success import fit_success
from orchestai.evaluation.tables.estimates import Features, Fold, TableEstimates, nan_mean

OURS = "ours"


def estimate(fold: Fold) -> TableEstimates:
    """What our estimate expects; of training queries, what estimates expected that did not know them."""
    queries = queries_of(fold.table, fold.train, fold.features)
    prices = nan_mean(fold.table.cost_usd[fold.train])
    attempts = Attempts(queries, fold.table.score, cards_of(fold, prices), fold.groups).take(fold.train)
    fitted = fit_success(attempts, seed=fold.seed)
    score = fitted.estimate.success(queries)
    score[fold.train] = fitted.held_out
    return TableEstimates(score, expected_cost(fold, queries, prices))


def cards_of(fold: Fold, prices: Values) -> Values:
    """(workers, features) of the workers' cards, by price, and by words where there are some."""
    return price_cards(prices) if fold.cards is None else described_cards(prices, fold.cards.astype(np.float64))


def queries_of(table: OutcomeTable, train: Rows, features: Features) -> Queries:
    """The table's queries, without wording that many of those to learn from share."""
    common = shared_lines([table.texts[row] for row in train])
    texts = tuple(without_lines(text, common) for text in table.texts)
    return Queries(texts, table.task_types, features)


def expected_cost(fold: Fold, queries: Queries, prices: Values) -> Values:
    """(queries, workers) US dollars; NaN throughout where the table has no costs.

    Args:
        prices: (workers,) of a typical query, for workers whose costs on training queries are not known.
    """
    if not fold.table.priced:
        return np.full(fold.table.score.shape, np.nan)
    learned = SpendingEstimate.fit(queries.take(fold.train), fold.table.cost_usd[fold.train], prices)
    return learned.expected(queries)
