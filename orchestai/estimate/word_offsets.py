"""What words say of one worker alone, beside what they say of a query for all: ridge-penalized logistic offsets."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np

from orchestai.estimate.attempts import Values
from orchestai.estimate.calibration import logit, sigmoid

_STEPS = 8


def word_offsets(features: Values, expected: Values, score: Values, variances: Iterable[float]) -> Iterator[Values]:
    """For each variance (features, columns) weights of what to add to the log odds.

    Args:
        features: (queries, features) of mean squared length 1, of which no two vary together.
        expected: (queries, columns) probabilities without offsets.
        score: (queries, columns) in [0, 1], NaN where not known; a column without any has no offset.
        variances: of an offset a priori, 0 or more.
    """
    lengths = (features**2).sum(axis=0)
    base = logit(expected)
    curvature = float((expected * (1 - expected)).mean())
    for variance in variances:
        weights = np.zeros((features.shape[1], score.shape[1]))
        if variance > 0:
            step = 1 / (curvature * lengths + 1 / variance)[:, None]
            for _ in range(_STEPS):
                residuals = np.nan_to_num(score - sigmoid(base + features @ weights))
                weights = weights + step * (features.T @ residuals - weights / variance)
        yield weights
