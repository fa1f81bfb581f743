"""p(success) of every worker on a query, and what failures so far make of it; calibrated on attempts held out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Final

import numpy as np

from orchestai.estimate.attempts import Attempts, Queries, Rows, Values
from orchestai.estimate.calibration import Calibration, logit, sigmoid
from orchestai.estimate.item_response import ItemResponse, add_words, fit_item_response
from orchestai.estimate.spending import QueryTraits

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


STRENGTHS: Final = (0.0, 0.02, 0.05, 0.1, 0.2)
"""A priori variances of what words may say: of traits, beside the 1 that they do not, and of a worker's log odds."""
_FOLDS = 5


@dataclass(frozen=True, eq=False)
class SuccessEstimate:
    """How queries are read, how workers do on them, and what (features, columns) add to each worker's log odds.

    `strengths` are those of the words for all workers and for each alone, as chosen.
    """

    traits: QueryTraits
    model: ItemResponse
    offsets: Values
    calibration: Calibration
    strengths: tuple[float, float]

    def belief(self, queries: Queries) -> Values:
        """(queries, points) what is believed of the queries' hidden traits before anybody is asked."""
        return self.model.belief(self.traits.features(queries), self.traits.types(queries))

    def success(self, queries: Queries) -> Values:
        """(queries, columns) calibrated probabilities."""
        expected = self.model.expected(self.belief(queries), self.traits.types(queries))
        return self.calibration.apply(sigmoid(logit(expected) + self.traits.features(queries) @ self.offsets))

    def success_at_points(self, queries: Queries) -> Values:
        """(queries, columns, points) calibrated probabilities if a query's hidden traits were known."""
        success = self.model.success[self.traits.types(queries)]
        offsets = self.traits.features(queries) @ self.offsets
        return self.calibration.apply(sigmoid(logit(success) + offsets[:, :, None]))


@dataclass(frozen=True, eq=False)
class FittedSuccess:
    """An estimate, and (queries, columns) what estimates that did not know them said of what it was learned from."""

    estimate: SuccessEstimate
    held_out: Values


def fit_success(attempts: Attempts, *, seed: int = 0) -> FittedSuccess:
    """Learn from attempts.

    How much words may say is chosen by the likelihood of attempts held out (five folds of whole groups); it is nothing
    where they tell nothing. The chosen one's held-out probabilities give the calibration.
    """
    held_out = np.zeros((len(STRENGTHS), len(STRENGTHS), *attempts.score.shape))
    folds = group_folds(attempts.groups, seed)
    for fold in range(_FOLDS):
        if (test := folds == fold).any() and not test.all():
            held_out[:, :, test] = _grid(
                attempts.take(np.flatnonzero(~test)), attempts.queries.take(np.flatnonzero(test))
            )

    def log_loss(one: tuple[int, ...]) -> float:
        odds = logit(held_out[one])
        return float(np.nanmean(np.logaddexp(0, odds) - attempts.score * odds))

    both = min(product(range(len(STRENGTHS)), repeat=2), key=log_loss)
    shared, alone = (STRENGTHS[place] for place in both)
    calibration = Calibration.of(held_out[both], attempts.score)
    estimate = learn(attempts, (shared, alone), calibration)
    return FittedSuccess(estimate, calibration.apply(held_out[both]))


def learn(attempts: Attempts, strengths: tuple[float, float], calibration: Calibration) -> SuccessEstimate:
    """The estimate from attempts when the strengths and the calibration are known."""
    traits = QueryTraits.of(attempts.queries)
    types, features = traits.types(attempts.queries), traits.features(attempts.queries)
    plain = fit_item_response(attempts.score, types, len(traits.task_types), attempts.cards)
    model = add_words(plain, attempts.score, types, features, strengths[0])
    expected = model.expected(model.belief(features, types), types)
    (offsets,) = word_offsets(features, expected, attempts.score, [strengths[1]])
    return SuccessEstimate(traits, model, offsets, calibration, strengths)


def group_folds(groups: Rows, seed: int) -> Rows:
    """(queries,) the number of the fold of each, of five; a group is in one."""
    _, numbers = np.unique(groups, return_inverse=True)
    return np.random.default_rng(seed).permutation(int(numbers.max()) + 1)[numbers] % _FOLDS


def _grid(attempts: Attempts, unseen: Queries) -> Values:
    """(strengths, strengths, queries, columns) probabilities with ever more say of the words."""
    traits = QueryTraits.of(attempts.queries)
    types, features = traits.types(attempts.queries), traits.features(attempts.queries)
    unseen_types, unseen_features = traits.types(unseen), traits.features(unseen)
    plain = fit_item_response(attempts.score, types, len(traits.task_types), attempts.cards)
    rows = []
    for strength in STRENGTHS:
        model = add_words(plain, attempts.score, types, features, strength)
        learned = model.expected(model.belief(features, types), types)
        base = logit(model.expected(model.belief(unseen_features, unseen_types), unseen_types))
        every = word_offsets(features, learned, attempts.score, STRENGTHS)
        rows.append([sigmoid(base + unseen_features @ offsets) for offsets in every])
    return np.array(rows)
