"""What a worker's answer probably costs, how many tokens it has and how long it takes: all are learned alike."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from orchestai.estimate.attempts import Queries, Rows, Values
from orchestai.estimate.query_traits import QueryTraits

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
