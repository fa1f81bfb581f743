"""Fixed choices mixed by chance, so that they cost as much as a planner does."""

from __future__ import annotations

import math
from collections.abc import Sequence

from orchestai.evaluation.statistics import mean
from orchestai.evaluation.systems.baselines import STATIC_MIX
from orchestai.evaluation.systems.results import Result, SystemRow


def static_mix(rows: Sequence[SystemRow], budget_usd: float) -> SystemRow | None:
    """What is to be expected where a coin is tossed between two rows for each task, at this mean cost.

    They are the two that solve most so, in hindsight, on the tasks themselves. Where every row is cheaper, or none is,
    it is the best or the cheapest alone; None without rows whose cost and success are known.
    """
    known = [(mean(row.values("cost_usd")), mean(row.values("success")), row) for row in rows]
    known = [one for one in known if math.isfinite(one[0]) and math.isfinite(one[1])]
    if not known:
        return None
    cheap = [one for one in known if one[0] <= budget_usd] or [min(known, key=lambda one: one[0])]
    dear = [one for one in known if one[0] > budget_usd]
    best = max(cheap, key=lambda one: one[1])
    pairs = [
        (best, best, 0.0),
        *((one, other, _share(one[0], other[0], budget_usd)) for one in cheap for other in dear),
    ]
    one, other, share = max(pairs, key=lambda pair: (1 - pair[2]) * pair[0][1] + pair[2] * pair[1][1])
    both = zip(one[2].results, other[2].results, strict=True)
    return SystemRow(STATIC_MIX, tuple(_mixed(*results, share) for results in both))


def _share(cheap_usd: float, dear_usd: float, budget_usd: float) -> float:
    """How often the dear one is taken, so that the mean is the budget."""
    return min(max((budget_usd - cheap_usd) / (dear_usd - cheap_usd), 0.0), 1.0) if dear_usd > cheap_usd else 0.0


def _mixed(one: Result, other: Result, share: float) -> Result:
    """Expected figures where the other has a chance of `share`."""

    def expected(field: str) -> float:
        return (1 - share) * float(getattr(one, field)) + share * float(getattr(other, field))

    likelier = one if share < 0.5 else other
    return Result(
        expected("success"),
        expected("reward"),
        expected("cost_usd"),
        expected("latency_ms"),
        likelier.raw_valid,
        likelier.workflow,
        one.reason or other.reason,
    )
