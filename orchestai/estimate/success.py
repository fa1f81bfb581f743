"""p(success) of every worker on a query, calibrated on attempts held out.

Log odds are a worker's on queries of the type, from means that few attempts draw to what worker and type do elsewhere,
plus what the query's words and form say for all workers alike, and for each alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from orchestai.estimate.attempts import Attempts, Queries, Rows, Values
from orchestai.estimate.calibration import Calibration, logit, sigmoid
from orchestai.estimate.spending import QueryTraits

_PSEUDO = 5.0
"""Attempts that agree with what is known more generally, beside those of a worker on a type."""
_STEPS = 8


def shrunk_levels(score: Values, types: Rows, count: int, cards: Values) -> Values:
    """(types + 1, columns) log odds of success; the last type is any that is not known.

    A column that was hardly tried is expected to do as those with similar cards, as far as cards tell of the others.

    Args:
        score: (queries, columns) in [0, 1], NaN where not known.
        types: (queries,) numbers below `count`.
        cards: (columns, 1) see `price_cards`.
    """
    tried, won = np.zeros((2, count + 1, score.shape[1]))
    np.add.at(tried, types, np.isfinite(score))
    np.add.at(won, types, np.nan_to_num(score))
    overall = (won.sum() + 1) / (tried.sum() + 2)

    def shrunk(axis: int, usual: Values | float) -> Values:
        total = tried.sum(axis=axis, keepdims=True)
        return logit((won.sum(axis=axis, keepdims=True) + _PSEUDO * usual) / (total + _PSEUDO))

    distance, sure, card = shrunk(0, overall) - logit(overall), tried.sum(axis=0) > _PSEUDO, cards[:, 0]
    slope = (distance[0, sure] @ card[sure]) / (card[sure] @ card[sure] + 1)
    column, of_type = shrunk(0, sigmoid(logit(overall) + slope * card)), shrunk(1, overall)
    expected = sigmoid(column + of_type - logit(overall))
    return logit((won + _PSEUDO * expected) / (tried + _PSEUDO))


def word_offsets(features: Values, base: Values, score: Values, variances: Iterable[float]) -> Iterator[Values]:
    """For each variance (features, columns) weights of what to add to the log odds.

    Args:
        features: (queries, features) of mean squared length 1, of which no two vary together.
        base: (queries, columns) log odds without offsets.
        score: (queries, columns) in [0, 1], NaN where not known; a column without any has no offset. One column is
            shared by all of `base`'s.
        variances: of an offset a priori, 0 or more.
    """
    lengths, expected = (features**2).sum(axis=0), sigmoid(base)
    curvature = float((expected * (1 - expected)).mean())
    for variance in variances:
        weights = np.zeros((features.shape[1], score.shape[1]))
        if variance > 0:
            step = 1 / (curvature * lengths + 1 / variance)[:, None]
            for _ in range(_STEPS):
                residuals = np.nan_to_num(score - sigmoid(base + features @ weights))
                weights = weights + step * (features.T @ residuals - weights / variance)
        yield weights


STRENGTHS: Final = (0.0, 0.05, 0.2, 1.0, 4.0)
"""A priori variances of what words may say: of the log odds of all workers alike, and of each worker's alone."""
_FOLDS = 5


@dataclass(frozen=True, eq=False)
class SuccessEstimate:
    """How queries are read, and how workers do on them.

    Attributes:
        levels: see `shrunk_levels`.
        offsets: (features, columns) what words add.
        strengths: of the words for all workers and for each alone, as chosen.
    """

    traits: QueryTraits
    levels: Values
    offsets: Values
    calibration: Calibration
    strengths: tuple[float, float]

    def success(self, queries: Queries) -> Values:
        """(queries, columns) calibrated probabilities."""
        levels = self.levels[self.traits.types(queries)]
        return self.calibration.apply(sigmoid(levels + self.traits.features(queries) @ self.offsets))


@dataclass(frozen=True, eq=False)
class FittedSuccess:
    """An estimate, and (queries, columns) what estimates that did not know them said of what it was learned from."""

    estimate: SuccessEstimate
    held_out: Values


def fit_success(attempts: Attempts, *, seed: int = 0) -> FittedSuccess:
    """Learn from attempts.

    How much words may say is chosen by the likelihood of attempts held out (five folds of whole groups): the least of
    what is within one standard error of the best, so that it is nothing where they tell nothing. The chosen one's
    held-out probabilities give the calibration.
    """
    held_out = np.zeros((len(STRENGTHS), len(STRENGTHS), *attempts.score.shape))
    folds = group_folds(attempts.groups, seed)
    for fold in range(_FOLDS):
        if (test := folds == fold).any() and not test.all():
            known, unseen = attempts.take(np.flatnonzero(~test)), attempts.queries.take(np.flatnonzero(test))
            for one, shared in enumerate(STRENGTHS):
                for other, estimate in enumerate(_learned(known, shared, STRENGTHS)):
                    held_out[one, other, test] = estimate.success(unseen)

    odds = logit(held_out)
    losses = np.nansum(np.logaddexp(0, odds) - attempts.score * odds, axis=-1)
    worse = losses - losses[np.unravel_index(losses.sum(axis=-1).argmin(), losses.shape[:2])]
    within = worse.mean(axis=-1) <= worse.std(axis=-1) / len(folds) ** 0.5
    both = min(zip(*map(np.ndarray.tolist, np.nonzero(within)), strict=True), key=sum)
    calibration = Calibration.of(held_out[both], attempts.score)
    estimate = learn(attempts, (STRENGTHS[both[0]], STRENGTHS[both[1]]), calibration)
    return FittedSuccess(estimate, calibration.apply(held_out[both]))


def learn(attempts: Attempts, strengths: tuple[float, float], calibration: Calibration) -> SuccessEstimate:
    """The estimate from attempts when the strengths and the calibration are known."""
    (estimate,) = _learned(attempts, strengths[0], strengths[1:])
    return replace(estimate, calibration=calibration)


def _learned(attempts: Attempts, shared: float, alone: Iterable[float]) -> Iterator[SuccessEstimate]:
    """Without calibration, for each strength of the words for one worker alone."""
    traits, score = QueryTraits.of(attempts.queries), attempts.score
    types, features = traits.types(attempts.queries), traits.features(attempts.queries)
    levels = shrunk_levels(score, types, len(traits.task_types), attempts.cards)
    base = levels[types]
    residual = np.nanmean(np.where(np.isfinite(score), score - sigmoid(base), np.nan), axis=1, keepdims=True)
    level = logit(np.nanmean(sigmoid(base), axis=1, keepdims=True))
    (common,) = word_offsets(features, level, sigmoid(level) + residual, [shared])
    for strength, own in zip(alone, word_offsets(features, base + features @ common, score, alone), strict=True):
        yield SuccessEstimate(traits, levels, common + own, Calibration(), (shared, strength))


def group_folds(groups: Rows, seed: int) -> Rows:
    """(queries,) the number of the fold of each, of five; a group is in one."""
    _, numbers = np.unique(groups, return_inverse=True)
    return np.random.default_rng(seed).permutation(int(numbers.max()) + 1)[numbers] % _FOLDS
