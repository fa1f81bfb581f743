"""Queries as numbers: which type they are of, what their words mean, and their form."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from orchestai.estimate.attempts import Queries, Rows, Values

_PSEUDO_QUERIES = 30
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
        centers = _centers(values, types, len(names))
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


def _centers(values: Values, types: Rows, count: int) -> Values:
    """(types + 1, features) means, shrunk to that of all, which is last."""
    overall = values.mean(axis=0)
    own = [values[types == number] for number in range(count)]
    shrunk = [(one.sum(axis=0) + _PSEUDO_QUERIES * overall) / (len(one) + _PSEUDO_QUERIES) for one in own]
    return np.array([*shrunk, overall])


def _form(texts: Sequence[str]) -> Values:
    """(texts, 4)"""
    return np.array([_form_of(text) for text in texts]).reshape(len(texts), 4)


@lru_cache(maxsize=1 << 15)
def _form_of(text: str) -> tuple[float, float, float, float]:
    """Logarithms of the length in characters and in words, shares of digits and of other signs."""
    signs = sum(not (sign.isalnum() or sign.isspace()) for sign in text)
    length = max(len(text), 1)
    return math.log1p(len(text)), math.log1p(len(text.split())), sum(map(str.isdigit, text)) / length, signs / length
