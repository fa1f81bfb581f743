"""Item response theory for workers: queries have hidden traits, by which all workers' outcomes hang together.

p(worker succeeds on query) = sigmoid(b + a . traits), with an intercept b and slopes a per task type and worker. Traits
are as probable as they are among the type's queries (`trait_spread`), times exp(d . traits) with a d by the query's
words. Two-parameter models of tests are of this form (Birnbaum 1968; several traits: Reckase 2009); fitted by EM on a
grid of traits (Bock and Aitkin 1981).

Coefficients are shrunk in three levels, as far as the outcomes say (empirical Bayes): those of a type and worker to the
worker's own plus the type's, a worker's to those of workers with similar cards, and these to the mean of all.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from orchestai.estimate.attempts import Rows, Values
from orchestai.estimate.calibration import logit, sigmoid
from orchestai.estimate.shrinkage import Shrinkage
from orchestai.estimate.trait_spread import NORMAL, POINTS, TRAITS, moments, normalized, relearned

_DESIGN = np.hstack([np.ones((len(POINTS), 1)), POINTS])
_STEPS = 25
_FURTHER_STEPS = 10
_LEAST_KNOWN = 0.02
"""Variance of a trait that a query's outcomes take away at least."""
_FARTHEST = 12.0
"""Log odds beyond which an outcome is certain."""


@dataclass(frozen=True, eq=False)
class ItemResponse:
    """A fitted model.

    Attributes:
        levels: coefficients (intercept, slopes) of types and columns, and how sure they are.
        directions: (features, traits) by which features move the traits.
        spread: (types + 1, points) the share of a type's queries at each point, where features move none; a single row
            serves all types.
    """

    levels: Shrinkage
    directions: Values
    spread: Values = field(default_factory=lambda: NORMAL)

    @property
    def success(self) -> Values:
        """(types + 1, columns, points) probabilities; the last type is any that is not known.

        Where coefficients are unsure, probabilities are nearer to 1/2: by MacKay's approximation of their mean (1992).
        """
        mean = self.levels.coefficients @ _DESIGN.T
        variance = np.einsum("tjpr,kp,kr->tjk", self.levels.covariance, _DESIGN, _DESIGN, optimize=True)
        return sigmoid(np.clip(mean, -_FARTHEST, _FARTHEST) / np.sqrt(1 + np.pi / 8 * variance))

    def belief(self, features: Values, types: Rows) -> Values:
        """(queries, points) the probability of each point, before any outcome is known."""
        spread = self.spread[np.minimum(types, len(self.spread) - 1)]
        return normalized(np.log(spread) + features @ self.directions @ POINTS.T)

    def after(self, belief: Values, types: Rows, score: Values) -> Values:
        """(queries, points) the same when outcomes are known.

        Args:
            score: (queries, columns) in [0, 1], NaN where not known.
        """
        success = self.success[types]
        known = np.isfinite(score)[:, :, None]
        outcome = np.nan_to_num(score)[:, :, None]
        likelihood = np.where(known, outcome * np.log(success) + (1 - outcome) * np.log1p(-success), 0.0).sum(axis=1)
        return normalized(np.log(np.maximum(belief, 1e-300)) + likelihood)

    def expected(self, belief: Values, types: Rows) -> Values:
        """(queries, columns) probabilities of success under a belief."""
        result = np.empty((len(types), self.levels.coefficients.shape[1]))
        success = self.success
        for number in np.unique(types):
            result[types == number] = belief[types == number] @ success[number].T
        return result


def fit_item_response(score: Values, types: Rows, count: int, cards: Values) -> ItemResponse:
    """Fit the model without words.

    Args:
        score: (queries, columns) in [0, 1], NaN where not known.
        types: (queries,) numbers below `count`.
        cards: (columns, features) of the workers' cards.
    """
    levels = Shrinkage.start(_first_guess(score, types, count), cards)
    model = ItemResponse(levels, np.zeros((0, TRAITS)), np.repeat(NORMAL, count + 1, axis=0))
    nothing = np.zeros((len(score), 0))
    for _ in range(_STEPS):
        model = _step(model, score, types, nothing)[0]
    return model


def add_words(model: ItemResponse, score: Values, types: Rows, features: Values, told: float) -> ItemResponse:
    """The model when features may move the traits so far.

    Args:
        features: (queries, features) of mean squared length 1, of which no two vary together.
        told: variance, a priori, of how far features move a trait, which itself varies by about 1; 0 or more.
    """
    if told == 0:
        return replace(model, directions=np.zeros((features.shape[1], TRAITS)))
    lengths = (features**2).sum(axis=0)[:, None]
    model = replace(model, directions=np.zeros((features.shape[1], TRAITS)))
    for _ in range(_FURTHER_STEPS):
        model, before, after = _step(model, score, types, features)
        (expected, variance), (mean, left) = moments(before), moments(after)
        known = np.maximum(variance - left, _LEAST_KNOWN).mean(axis=0)
        working = features @ model.directions + (mean - expected) / known
        penalty = 1 / (told * known)
        model = replace(model, directions=(features.T @ working) / (lengths + penalty))
    return model


def _step(model: ItemResponse, score: Values, types: Rows, features: Values) -> tuple[ItemResponse, Values, Values]:
    """One step of EM for coefficients and spread, and beliefs before and after the outcomes, (queries, points)."""
    logits = np.clip(model.levels.coefficients @ _DESIGN.T, -_FARTHEST, _FARTHEST)
    won, lost = np.nan_to_num(score), np.where(np.isnan(score), 0.0, 1 - score)
    before = model.belief(features, types)
    shape = len(logits) - 1, score.shape[1], len(POINTS)
    successes, failures = np.zeros(shape), np.zeros(shape)
    after = np.empty(before.shape)
    for number in range(shape[0]):
        own = types == number
        lost_there = np.logaddexp(0, logits[number])
        log_likelihood = won[own] @ (logits[number] - lost_there) - lost[own] @ lost_there
        after[own] = normalized(np.log(before[own]) + log_likelihood)
        successes[number], failures[number] = won[own].T @ after[own], lost[own].T @ after[own]
    levels = model.levels.refit(_DESIGN, successes, failures)
    return replace(model, levels=levels, spread=relearned(model.spread, before, after, types)), before, after


def _first_guess(score: Values, types: Rows, count: int) -> Values:
    """(types, columns, 1 + traits) log odds of shrunk means, and the main directions in which outcomes vary."""
    known = np.isfinite(score)
    overall = (np.nansum(score, axis=0) + 1) / (known.sum(axis=0) + 2)
    means = np.empty((count, score.shape[1]))
    residuals = np.zeros(score.shape)
    for number in range(count):
        own = types == number
        means[number] = (np.nansum(score[own], axis=0) + 5 * overall) / (known[own].sum(axis=0) + 5)
        residuals[own] = np.where(known[own], score[own] - means[number], 0.0)
    _, axes = np.linalg.eigh(residuals.T @ residuals)
    slopes = np.zeros((score.shape[1], TRAITS))
    for trait, axis in enumerate(axes.T[::-1][:TRAITS]):
        slopes[:, trait] = axis * (1 if axis.sum() >= 0 else -1) / max(np.abs(axis).mean(), 1e-9)
    slopes[:, 0] = np.clip(slopes[:, 0], 0.3, 2.0)
    slopes[:, 1:] = np.clip(0.7 * slopes[:, 1:], -2.0, 2.0)
    return np.concatenate([logit(means)[..., None], np.broadcast_to(slopes, (*means.shape, TRAITS))], axis=2)
