"""Whether probabilities come true: their error, and the correction that attempts held out call for."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from orchestai.estimate.attempts import Values

BINS = 15
_STEPS = 20
_PSEUDO_OUTCOMES = 10.0
"""Outcomes that agree with no correction, beside those that were held out."""


def logit(probability: Values) -> Values:
    """The log odds, of probabilities that are kept 1e-6 away from 0 and 1."""
    kept = np.clip(probability, 1e-6, 1 - 1e-6)
    return np.log(kept / (1 - kept))


def sigmoid(value: Values) -> Values:
    """The probability of these log odds, which are kept within 30."""
    return 1 / (1 + np.exp(-np.clip(value, -30, 30)))


@dataclass(frozen=True)
class Calibration:
    """Platt's correction of log odds: `shift + slope * logit` (Platt 1999)."""

    shift: float = 0.0
    slope: float = 1.0

    @classmethod
    def of(cls, estimated: Values, score: Values) -> Calibration:
        """That of the highest likelihood, slightly drawn to none; NaN in either is left out.

        Args:
            estimated, score: of any one shape.
        """
        known = np.isfinite(estimated) & np.isfinite(score)
        design = np.stack([np.ones(known.sum()), logit(estimated[known])], axis=1)
        start = np.array([0.0, 1.0])
        weights = start.copy()
        for _ in range(_STEPS):
            expected = sigmoid(design @ weights)
            gradient = design.T @ (score[known] - expected) - _PSEUDO_OUTCOMES * (weights - start)
            spread = expected * (1 - expected)
            curvature = design.T @ (design * spread[:, None]) + _PSEUDO_OUTCOMES * np.eye(2)
            weights = weights + np.clip(np.linalg.solve(curvature, gradient), -1, 1)
        return cls(float(weights[0]), max(float(weights[1]), 0.0))

    def apply(self, estimated: Values) -> Values:
        """The corrected probabilities."""
        return sigmoid(self.shift + self.slope * logit(estimated))


def reliability(estimated: Values, score: Values, bins: int = BINS) -> Values:
    """(bins, 3) mean probability, mean score and number of outcomes in bins of equal numbers, by ascending probability.

    Args:
        estimated, score: of any one shape; NaN in either is left out.
    """
    known = np.isfinite(estimated) & np.isfinite(score)
    order = np.argsort(estimated[known], kind="stable")
    parts = [part for part in np.array_split(order, bins) if part.size]
    return np.array([(estimated[known][part].mean(), score[known][part].mean(), part.size) for part in parts]).reshape(
        len(parts), 3
    )


def expected_calibration_error(estimated: Values, score: Values, bins: int = BINS) -> float:
    """Mean |probability - score| over bins of equal numbers (Naeini et al. 2015); NaN where there is nothing."""
    rows = reliability(estimated, score, bins)
    if not rows.size:
        return float("nan")
    return float(np.abs(rows[:, 0] - rows[:, 1]) @ rows[:, 2] / rows[:, 2].sum())
