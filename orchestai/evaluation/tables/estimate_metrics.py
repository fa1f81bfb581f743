"""Whether estimates come true: the calibration of probabilities, and the error of expected costs in the mean."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from orchestai.data.tables.outcome_table import OutcomeTable, Rows, Values
from orchestai.estimate.calibration import BINS, reliability
from orchestai.evaluation.tables.estimates import TableEstimates


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

    Few outcomes differ from their probabilities by chance alone, so that no estimate can be measured to err by less.
    They are drawn independently here; where workers fail on the same queries, chance does more than that.

    Args:
        rows: that are tested.
        draws: of an outcome, right or wrong, for each that the table has.
    """
    expected = estimates.score[rows][np.isfinite(table.score[rows])]
    right = np.random.default_rng(0).random((draws, len(expected))) < expected
    errors = [np.abs((expected - right)[:, part].sum(axis=1)) for part in _bins(expected)]
    drawn = np.sum(errors, axis=0) / len(expected)
    return np.concatenate([[drawn.mean()], drawn])


def cost_errors(table: OutcomeTable, rows: Rows, weights: Values, estimates: TableEstimates) -> Values:
    """(draws,) |expected - true| / true mean cost, averaged over workers; those that cost nothing are left out."""
    known = np.isfinite(table.cost_usd[rows])
    true = np.where(known, table.cost_usd[rows], 0.0).T @ weights
    expected = np.where(known, estimates.cost_usd[rows], 0.0).T @ weights
    paid = true.min(axis=1) > 0
    return np.asarray(np.abs(expected[paid] / true[paid] - 1).mean(axis=0))


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
