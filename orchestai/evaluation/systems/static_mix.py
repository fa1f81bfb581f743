"""Fixed choices mixed by chance, so that they cost as much as a planner does."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from orchestai.evaluation.statistics import mean
from orchestai.evaluation.systems.baselines import STATIC_MIX
from orchestai.evaluation.systems.results import Result, SystemRow
from orchestai.evaluation.tables.routing_metrics import hull_corners


def static_mix(rows: Sequence[SystemRow], budget_usd: float) -> SystemRow | None:
    """What is to be expected of the two rows between which a coin is tossed for each task, at this mean cost.

    They are the best two in hindsight, on the tasks themselves: the corners of the rows' concave hull beside the
    budget. Where no corner is dearer, or none is cheaper, it is one row alone; None where no row solves anything.
    """
    costs, solved = (np.array([mean(row.values(field)) for row in rows]) for field in ("cost_usd", "success"))
    corners = hull_corners(costs, solved).tolist()
    if not corners:
        return None
    cheap = max((one for one in corners if costs[one] <= budget_usd), key=lambda one: costs[one], default=corners[0])
    dear = min((one for one in corners if costs[one] > budget_usd), key=lambda one: costs[one], default=cheap)
    apart = costs[dear] - costs[cheap]
    share = float(np.clip((budget_usd - costs[cheap]) / apart, 0, 1)) if apart else 0.0
    pairs = zip(rows[cheap].results, rows[dear].results, strict=True)
    return SystemRow(STATIC_MIX, tuple(_mixed(one, other, share) for one, other in pairs))


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
