"""Each worker's mean score on the training queries that are most similar to the query."""

from __future__ import annotations

import numpy as np

from orchestai.data.tables.outcome_table import Values
from orchestai.evaluation.tables.estimates import Fold, nan_mean, worker_means

NEIGHBORS = 100


def estimate(fold: Fold) -> Values:
    """(queries, workers) means over the 100 training queries of the highest cosine similarity, or all if fewer.

    A training query is its own neighbor: its estimate is not for testing. A worker that none of the neighbors measured
    gets its mean over all.
    """
    learned = fold.table.score[fold.train]
    count = min(NEIGHBORS, len(fold.train))
    overall = worker_means(learned)
    means = np.empty_like(fold.table.score)
    for row, similarity in enumerate(fold.features @ fold.features[fold.train].T):
        nearest = np.argpartition(-similarity, count - 1)[:count]
        means[row] = nan_mean(learned[nearest])
    return np.where(np.isnan(means), overall, means)
