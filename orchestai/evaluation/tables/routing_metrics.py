"""Metrics of routers: quality against cost where every worker has a price, and against calls of the stronger of two."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np

from orchestai.data.outcome_table import Rows, Values

Curve: TypeAlias = tuple[Values, Values]
"""Costs, ascending, and the quality at each; `np.interp(cost, *curve)` is the quality at a cost."""


def hull_corners(cost: Values, quality: Values) -> Rows:
    """The points, by ascending cost, through which the least concave, non-decreasing curve above all points goes.

    Between two corners lie the routers that toss a coin between the routers there (RouterBench, Hu et al. 2024, arXiv
    2403.12031, section 3). The curve begins at (0, 0), the router that asks nobody, and stays level behind its last
    corner.

    Args:
        cost, quality: (points,) not below 0; a point with a NaN is no corner.
    """
    corners: list[tuple[float, float]] = [(0.0, 0.0)]
    places: list[int] = []
    known = np.flatnonzero(np.isfinite(cost) & np.isfinite(quality))
    for place in sorted(known.tolist(), key=lambda one: (cost[one], -quality[one])):
        point = float(cost[place]), float(quality[place])
        if point[1] <= corners[-1][1]:
            continue
        while places and (point[0] == corners[-1][0] or _below(corners[-2], corners[-1], point)):
            corners.pop()
            places.pop()
        corners.append(point)
        places.append(place)
    return np.array(places, dtype=np.intp)


def curve_through(cost: Values, quality: Values) -> Curve:
    """The curve from (0, 0) through all points by ascending cost, level behind the last; a point with a NaN is none."""
    known = np.flatnonzero(np.isfinite(cost) & np.isfinite(quality))
    order = known[np.lexsort((quality[known], cost[known]))]
    return np.append(0.0, cost[order]), np.append(0.0, quality[order])


def _below(left: tuple[float, float], middle: tuple[float, float], right: tuple[float, float]) -> bool:
    """Whether the middle point is on or below the line between the others."""
    return (middle[1] - left[1]) * (right[0] - left[0]) <= (right[1] - left[1]) * (middle[0] - left[0])


def aiq(curve: Curve, cheapest: float, most_expensive: float) -> float:
    """Average improvement in quality: the mean height of a router's curve over costs in [cheapest, most_expensive].

    AIQ = 1 / (c_max - c_min) * integral of the hull from c_min to c_max (RouterBench, arXiv 2403.12031, section 3.4).
    The bounds are those of the single workers, the same for all routers that are compared; NaN where they are equal.
    """
    if not cheapest < most_expensive:
        return float("nan")
    cost, quality = curve
    inside = (cost > cheapest) & (cost < most_expensive)
    at = np.concatenate([[cheapest], cost[inside], [most_expensive]])
    return float(np.trapezoid(np.interp(at, cost, quality), at) / (most_expensive - cheapest))


def hypervolume(cost: Values, quality: Values, reference_cost: float) -> float:
    """The share of [0, reference_cost] x [0, 1] that the points dominate: some point costs no more and is no worse.

    Zitzler and Thiele 1999 (doi 10.1109/4235.797969), with the reference point (reference_cost, 0). Without tossing
    coins, so that a router with few different points has less of it than AIQ suggests; a point with a NaN is none.
    """
    known = np.flatnonzero(np.isfinite(cost) & np.isfinite(quality))
    order = known[np.argsort(cost[known], kind="stable")]
    reached = np.maximum.accumulate(quality[order])
    bounds = np.append(np.minimum(cost[order], reference_cost), reference_cost)
    return float(np.sum(reached * np.diff(bounds)) / reference_cost)


def calls_curve(
    preference: Values, weak: Values, strong: Values, weights: Values | None = None
) -> tuple[Values, Values]:
    """Share of calls of the strong model, ascending from 0 to 1, and the mean score with so many.

    Queries go to the strong model in descending order of `preference`. Among queries of equal preference a coin
    decides, so that the curve is straight over them, and an order of rows cannot help.

    Without a query nobody knows the scores.

    Args:
        preference: (queries,) estimated gain of the strong model over the weak one.
        weak, strong: (queries,) scores.
        weights: (queries,) how often each query counts; once if absent.
    """
    weights = np.ones_like(weak) if weights is None else weights
    if not weights.any():
        return np.array([0.0, 1.0]), np.full(2, np.nan)
    _, level = np.unique(-preference, return_inverse=True)
    calls = np.cumsum(np.bincount(level, weights))
    gain = np.cumsum(np.bincount(level, weights * (strong - weak)))
    total = weights.sum()
    base = float((weights * weak).sum() / total)
    return np.append(0.0, calls / total), np.append(base, base + gain / total)


def apgr(calls: Values, score: Values) -> float:
    """Average performance gap recovered, with calls of the strong model at 0, 10, ..., 100 %, by the trapezoidal rule.

    PGR = (score - weak) / (strong - weak) (RouteLLM, Ong et al. 2024, arXiv 2406.18665, section 3; as its evaluation
    integrates it). Tossing coins has .5; NaN where the strong model is not better than the weak one.
    """
    gap = score[-1] - score[0]
    if not gap > 0:
        return float("nan")
    shares = np.linspace(0, 1, 11)
    return float(np.trapezoid((np.interp(shares, calls, score) - score[0]) / gap, shares))


def cpt(calls: Values, score: Values, recovered: float) -> float:
    """Call-performance threshold: the least share of calls of the strong model that recovers so much of the gap.

    CPT(x %) of RouteLLM (arXiv 2406.18665, section 3). Tossing coins has x; NaN where the strong model is not better.

    Args:
        calls, score: as `calls_curve` gives them.
        recovered: in (0, 1].
    """
    gap = score[-1] - score[0]
    if not gap > 0:
        return float("nan")
    pgr = (score - score[0]) / gap
    first = int(np.argmax(pgr >= recovered - 1e-12))
    before, after = pgr[first - 1], pgr[first]
    return float(calls[first - 1] + (calls[first] - calls[first - 1]) * (recovered - before) / (after - before))
