"""Item response theory for workers: queries have hidden traits, by which all workers' outcomes hang together.

p(worker succeeds on query) = sigmoid(b + a . traits), with an intercept b and slopes a per task type and worker. Traits
are as probable as they are among the type's queries (`trait_spread`), times exp(d . traits) with a d by the query's
words. Two-parameter models of tests are of this form (Birnbaum 1968; several traits: Reckase 2009); fitted by EM on a
grid of traits (Bock and Aitkin 1981).

Coefficients are shrunk in three levels, as far as the outcomes say (empirical Bayes): those of a type and worker to the
worker's own plus the type's, a worker's to those of workers with similar cards, and these to the mean of all.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from typing import Final

import numpy as np

from orchestai.estimate.attempts import Rows, Values
from orchestai.estimate.calibration import logit, sigmoid

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


TRAITS: Final = 2
_AXIS = np.linspace(-3.6, 3.6, 13)
POINTS: Final = np.array(list(product(*[_AXIS] * TRAITS)))
"""(points, traits) at which traits are considered."""
_PSEUDO_QUERIES = 30.0
"""Queries of the mean histogram that each type's counts beside its own, and of NORMAL that the mean one does."""


def normalized(logarithms: Values) -> Values:
    """(n, points) probabilities of which these are the logarithms, up to a constant per row."""
    weights = np.exp(logarithms - logarithms.max(axis=1, keepdims=True))
    return np.asarray(weights / weights.sum(axis=1, keepdims=True))


NORMAL: Final = normalized(-0.5 * (POINTS**2).sum(axis=1)[None])
"""(1, points) what is expected of a type of which nothing is known."""


def moments(belief: Values) -> tuple[Values, Values]:
    """Mean and variance of the traits under (queries, points) probabilities, both (queries, traits)."""
    mean = belief @ POINTS
    return mean, belief @ POINTS**2 - mean**2


def relearned(spread: Values, before: Values, after: Values, types: Rows) -> Values:
    """(types + 1, points) one step of EM for each type's histogram; the last is of all queries.

    Where features move no query, this is the mean of what outcomes make one believe; where they do, the histogram is
    rescaled until both beliefs agree in the mean over the queries (Darroch and Ratcliff 1972,
    doi 10.1214/aoms/1177692379).

    Args:
        spread: (types + 1, points) as it was.
        before, after: (queries, points) beliefs without and with the queries' outcomes.
        types: (queries,) numbers below the last.
    """
    every = _rescaled(spread[-1], before, after, NORMAL[0])
    own = [_rescaled(spread[n], before[types == n], after[types == n], every) for n in range(len(spread) - 1)]
    return np.array([*own, every])


def _rescaled(spread: Values, before: Values, after: Values, usual: Values) -> Values:
    wanted = after.sum(axis=0) + _PSEUDO_QUERIES * usual
    given = before.sum(axis=0) + _PSEUDO_QUERIES * spread
    scaled = spread * wanted / given
    return np.asarray(scaled / scaled.sum())


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
    spread: Values

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
