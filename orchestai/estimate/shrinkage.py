"""Coefficients per task type and worker, shrunk to what is known of the worker, of the type and of similar workers."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from orchestai.estimate.attempts import Values
from orchestai.estimate.calibration import sigmoid

_LEAST, _MOST = 0.01, 4.0
"""Bounds of estimated variances: neither are workers all alike, nor is a type without attempts anything at all."""
_NEWTON_STEPS = 2
_CARD_SHARES = (0.0, 0.3, 0.6, 0.9)
"""Shares of the variance between workers that their cards may explain."""


@dataclass(frozen=True, eq=False)
class Shrinkage:
    """Coefficients of types and columns: a column's by its card, plus a type's, plus what both have of their own.

    Attributes:
        coefficients: (types + 1, columns, width); the last type is any that is not known.
        covariance: (types + 1, columns, width, width) how unsure they are.
        of_column: (columns, width)
        of_type: (types, width)
        own, between, typical: (width,) variances.
        similarity: (columns, columns) of cards, 1 on the diagonal.
    """

    coefficients: Values
    covariance: Values
    of_column: Values
    of_type: Values
    own: Values
    between: Values
    typical: Values
    similarity: Values

    @classmethod
    def start(cls, coefficients: Values, cards: Values) -> Shrinkage:
        """From a first guess of (types, columns, width)."""
        types, columns, width = coefficients.shape
        of_column = coefficients.mean(axis=0)
        distance = ((cards[:, None] - cards[None]) ** 2).sum(axis=2) / max(cards.shape[1], 1)
        return cls(
            np.concatenate([coefficients, of_column[None]]),
            np.zeros((types + 1, columns, width, width)),
            of_column,
            np.zeros((types, width)),
            own=np.full(width, 0.1),
            between=np.full(width, 0.5),
            typical=np.full(width, 0.1),
            similarity=np.exp(-distance / 2),
        )

    def refit(self, design: Values, successes: Values, failures: Values) -> Shrinkage:
        """One step of EM towards the coefficients of the highest posterior probability.

        Args:
            design: (points, width)
            successes, failures: (types, columns, points) expected numbers of each.
        """
        precision = np.diag(1 / self.own)
        center = self.of_column[None] + self.of_type[:, None]
        coefficients = self.coefficients[:-1]
        total = successes + failures
        for _ in range(_NEWTON_STEPS):
            probability = sigmoid(coefficients @ design.T)
            gradient = (successes - total * probability) @ design - (coefficients - center) / self.own
            products = (design[:, :, None] * design[:, None, :]).reshape(len(design), -1)
            curvature = ((total * probability * (1 - probability)) @ products).reshape(*center.shape, -1) + precision
            step = np.linalg.solve(curvature, gradient[..., None])[..., 0]
            coefficients = coefficients + np.clip(step, -1, 1)
        covariance: Values = np.linalg.inv(curvature).astype(np.float64)
        return replace(self, coefficients=coefficients)._with_levels(covariance)

    def _with_levels(self, covariance: Values) -> Shrinkage:
        """What columns, types and variances are, given coefficients of (types, columns, width)."""
        coefficients = self.coefficients
        variance = np.einsum("tjpp->tjp", covariance)
        said = np.clip(1 - variance / self.own, 0.0, 1.0)
        """How much outcomes say of each coefficient beside what was known before."""
        news = coefficients - self.of_column[None] - self.of_type[:, None]
        expected = self._by_card()
        precision = said.sum(axis=0) / self.own + 1 / self.between
        of_column = ((news + said * self.of_column[None]).sum(axis=0) / self.own + expected / self.between) / precision
        column_variance = 1 / precision
        of_type, type_variance, own, typical = self.of_type, np.zeros_like(self.of_type), self.own, self.typical
        if len(coefficients) > 1:
            news = news + said * (self.of_column - of_column)[None]
            precision = said.sum(axis=1) / self.own + 1 / self.typical
            of_type = (news + said * self.of_type[:, None]).sum(axis=1) / self.own / precision
            type_variance = 1 / precision
            typical = _bounded((of_type**2 + type_variance).mean(axis=0))
            deviation = coefficients - of_column[None] - of_type[:, None]
            own = _bounded(
                (said * (deviation**2 + variance)).sum(axis=(0, 1)) / np.maximum(said.sum(axis=(0, 1)), 1e-9)
            )
        between = _bounded(((of_column - expected) ** 2 + column_variance).mean(axis=0))
        unsaid = (1 - said) ** 2 * (column_variance[None] + type_variance[:, None])
        width = np.arange(coefficients.shape[2])
        covariance = covariance.copy()
        covariance[:, :, width, width] += unsaid
        unknown = np.zeros((1, *covariance.shape[1:]))
        unknown[0][:, width, width] = own + typical + column_variance
        return replace(
            self,
            coefficients=np.concatenate([coefficients, of_column[None]]),
            covariance=np.concatenate([covariance, unknown]),
            of_column=of_column,
            of_type=of_type,
            own=own,
            between=between,
            typical=typical,
        )

    def _by_card(self) -> Values:
        """(columns, width) what all other columns make one expect of each, by their cards as far as these tell.

        Of the shares that cards may explain, that with the least error when each column is left out; formula 5.12 of
        Rasmussen and Williams 2006.
        """
        mean = self.of_column.mean(axis=0)
        deviation = self.of_column - mean
        columns = len(deviation)
        best, least = np.broadcast_to(mean, self.of_column.shape), np.inf
        for share in _CARD_SHARES:
            inverse = np.linalg.inv(share * self.similarity + (1 - share) * np.eye(columns))
            left_out = deviation - inverse @ deviation / np.diag(inverse)[:, None]
            error = float(((deviation - left_out) ** 2 / self.between).sum())
            if error < least:
                best, least = mean + left_out, error
        return best


def _bounded(variance: Values) -> Values:
    return np.clip(variance, _LEAST, _MOST)
