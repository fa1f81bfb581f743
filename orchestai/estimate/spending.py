"""What a worker's answer probably costs, how many tokens it has and how long it takes: all are learned alike."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from orchestai.estimate.attempts import Queries, Rows, Values

_TRAIT_PSEUDO_QUERIES = 30
"""Queries of the overall mean that each type's center counts beside its own."""
_FARTHEST = 4.0
"""Standard deviations beyond which a form is as unusual as it gets."""


@dataclass(frozen=True, eq=False)
class QueryTraits:
    """How queries are read, with the scale of those that were learned from.

    Attributes:
        task_types: in the order of their numbers.
        form: (2, 4) mean and standard deviation of each measure of the form.
        centers: (types + 1, features) of each type, last of all, which serves unknown types.
        scale: (features,) by which distances from the center are multiplied.
        axes: (features, features) onto which they are turned: the principal ones of the queries learned from.
    """

    task_types: tuple[str, ...]
    form: Values
    centers: Values
    scale: Values
    axes: Values

    @classmethod
    def of(cls, queries: Queries) -> QueryTraits:
        """Those of the queries to learn from."""
        names = tuple(sorted(set(queries.task_types)))
        types = _numbers(names, queries.task_types)
        measured = _form(queries.texts)
        form = np.stack([measured.mean(axis=0), np.maximum(measured.std(axis=0), 1e-9)])
        values = _values(queries, form)
        count = len(names)
        overall = values.mean(axis=0)
        own = [values[types == number] for number in range(count)]
        shrunk = [
            (one.sum(axis=0) + _TRAIT_PSEUDO_QUERIES * overall) / (len(one) + _TRAIT_PSEUDO_QUERIES) for one in own
        ]
        centers = np.array([*shrunk, overall])
        distance = values - centers[types]
        square = (distance**2).mean(axis=0)
        words = queries.embeddings.shape[1]
        # directions of an embedding mean nothing alone, so that they share one scale
        square[:words] = square[:words].mean()
        width = np.where(np.arange(len(square)) < words, words, len(square) - words)
        scale = 1 / np.sqrt(2 * width * np.maximum(square, 1e-12))
        scaled = distance * scale
        return cls(names, form, centers, scale, np.linalg.eigh(scaled.T @ scaled)[1].astype(np.float64))

    def types(self, queries: Queries) -> Rows:
        """(queries,) the number of each query's type; for a type that is not known, the number of types."""
        return _numbers(self.task_types, queries.task_types)

    def features(self, queries: Queries) -> Values:
        """(queries, features) whose mean squared length is 1, one half by the words and one by the form.

        Over the queries learned from, no two features vary together.
        """
        distance = _values(queries, self.form) - self.centers[self.types(queries)]
        return np.matmul(distance * self.scale, self.axes)


def _numbers(names: Sequence[str], task_types: Sequence[str]) -> Rows:
    number = {name: index for index, name in enumerate(names)}
    return np.array([number.get(name, len(names)) for name in task_types], dtype=np.intp)


def _values(queries: Queries, form: Values) -> Values:
    """(queries, width + 8) the embedding, and the form with its squares."""
    standard = np.clip((_form(queries.texts) - form[0]) / form[1], -_FARTHEST, _FARTHEST)
    return np.hstack([queries.embeddings, standard, standard**2])


def _form(texts: Sequence[str]) -> Values:
    """(texts, 4)"""
    return np.array([_form_of(text) for text in texts]).reshape(len(texts), 4)


@lru_cache(maxsize=1 << 15)
def _form_of(text: str) -> tuple[float, float, float, float]:
    """Logarithms of the length in characters and in words, shares of digits and of other signs."""
    signs = sum(not (sign.isalnum() or sign.isspace()) for sign in text)
    length = max(len(text), 1)
    return math.log1p(len(text)), math.log1p(len(text.split())), sum(map(str.isdigit, text)) / length, signs / length


_PENALTY = 10.0
"""Of the squared weights of features whose mean squared length is 1."""
_BOUNDS = 0.3, 3.0
"""Of what a query takes beside others of its type."""
_PSEUDO_QUERIES = 5.0


@dataclass(frozen=True, eq=False)
class SpendingEstimate:
    """A worker's mean on queries of a type, times what a query's words and form make of it for all workers.

    Attributes:
        traits: how queries are read.
        means: (types + 1, workers), the last for types that are not known; NaN where nothing is known of any worker.
        weights: (types + 1, features)
    """

    traits: QueryTraits
    means: Values
    weights: Values

    @classmethod
    def fit(cls, queries: Queries, spent: Values, typical: Values) -> SpendingEstimate:
        """Learn from what was measured.

        Args:
            spent: (queries, workers) 0 or more, NaN where not known.
            typical: (workers,) what a card says of a typical request, NaN where it says nothing; for workers that were
                never measured.
        """
        traits = QueryTraits.of(queries)
        types, features = traits.types(queries), traits.features(queries)
        means = _means(spent, types, len(traits.task_types), typical)
        weights = np.zeros((len(means), features.shape[1]))
        for number in range(len(traits.task_types)):
            own = types == number
            with np.errstate(invalid="ignore", divide="ignore"):
                shares = spent[own] / means[number]
            known = np.isfinite(shares)
            measured = known.any(axis=1)
            excess = np.where(known, shares - 1, 0.0).sum(axis=1)[measured] / known.sum(axis=1)[measured]
            design = features[own][measured]
            weights[number] = np.linalg.solve(design.T @ design + _PENALTY * np.eye(design.shape[1]), design.T @ excess)
        return cls(traits, means, weights)

    def expected(self, queries: Queries) -> Values:
        """(queries, workers) means."""
        types = self.traits.types(queries)
        shares = 1 + (self.traits.features(queries) * self.weights[types]).sum(axis=1)
        return self.means[types] * np.clip(shares, *_BOUNDS)[:, None]


def _means(spent: Values, types: Rows, count: int, typical: Values) -> Values:
    """(types + 1, workers) means; few on a type count beside the worker's overall mean times the type's usual ratio."""
    known = np.isfinite(spent)
    totals, numbers = np.where(known, spent, 0.0).sum(axis=0), known.sum(axis=0)
    overall = np.where(numbers > 0, totals / np.maximum(numbers, 1), typical)
    overall = np.where(np.isnan(overall), np.nanmean(overall), overall) if np.isfinite(overall).any() else overall
    means = np.empty((count + 1, spent.shape[1]))
    means[count] = overall
    for number in range(count):
        own = types == number
        sums, numbers = np.where(known[own], spent[own], 0.0).sum(axis=0), known[own].sum(axis=0)
        usual = (overall * numbers).sum()
        ratio = np.nan_to_num(sums).sum() / usual if usual > 0 else 1.0
        means[number] = (sums + _PSEUDO_QUERIES * ratio * overall) / (numbers + _PSEUDO_QUERIES)
    return means
