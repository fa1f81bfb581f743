"""How the queries of a task type are spread over the hidden traits: a histogram, not a normal distribution.

Where workers fail on opposite queries (some answer A to everything, others B) the traits have two peaks, and a normal
distribution would put workers' expected success up to a tenth away from their mean. The histogram is learned with the
coefficients, by the same EM (Bock and Aitkin 1981, doi 10.1007/BF02293801; Mislevy 1984, doi 10.1007/BF02306026).
"""

from __future__ import annotations

from itertools import product
from typing import Final

import numpy as np

from orchestai.estimate.attempts import Rows, Values

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
