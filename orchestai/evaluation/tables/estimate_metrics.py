"""Whether estimates come true: the calibration of probabilities, and the error of expected costs in the mean."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from orchestai.data.tables.outcome_table import OutcomeTable, Rows, Values
from orchestai.estimate.calibration import BINS, reliability
from orchestai.evaluation.tables.estimates import TableEstimates, nan_mean


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
