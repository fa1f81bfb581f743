"""One planner at every preference: what its plans cost and solve as price counts less, and if forecasts come true."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Final

import numpy as np

from orchestai.estimate.calibration import expected_calibration_error, reliability
from orchestai.estimate.plan_options import by_preference
from orchestai.evaluation.statistics import Interval, Values, mean, number, paired_difference, proportion
from orchestai.evaluation.systems.runner import Runner, SystemRow
from orchestai.evaluation.tables.routing_metrics import hypervolume
from orchestai.planner.base import Plan
from orchestai.planner.forecast import PlanForecaster, PoolForecaster

PREFERENCES: Final = tuple(round(0.1 * place, 1) for place in range(1, 10))
LEAST: Final = (0.5, 0.7, 0.9)
"""Values of `min_success` that are tried."""


@dataclass(frozen=True)
class SweptPoint:
    """The plans at one setting: on the tasks that were answered, what came of them and what had been expected.

    Attributes:
        setting: such as `prefer 0.3`.
        answered: tasks; all of them, but with a least success.
        success: share solved, with Wilson's 95 % interval.
    """

    setting: str
    answered: int
    success: Interval
    expected_success: float
    cost_usd: float
    expected_cost_usd: float
    latency_ms: float

    def to_dict(self) -> dict[str, Any]:
        names = ("expected_success", "cost_usd", "expected_cost_usd", "latency_ms")
        means = {name: number(getattr(self, name)) for name in names}
        return {"setting": self.setting, "answered": self.answered, "success": self.success.to_dict(), **means}


@dataclass(frozen=True)
class PreferenceSweep:
    """The figures of one sweep.

    Attributes:
        planner: whose decompositions these are.
        preferences: by ascending `prefer`.
        least: with a least success each, at the least price that reaches it.
        hypervolume: of the preferences, `hypervolume_of_rows` of the rows that they are compared with: the share of the
            costs, up to that of the costliest of all, times successes that some point reaches at no more cost.
        above: row -> success of the best preference at no more than the row's mean cost, minus the row's, paired.
        ece: expected calibration error of the forecasts of all preferences; `reliability` are its bins.
    """

    planner: str
    preferences: tuple[SweptPoint, ...]
    least: tuple[SweptPoint, ...]
    hypervolume: float
    hypervolume_of_rows: float
    above: dict[str, Interval]
    ece: float
    reliability: tuple[tuple[float, ...], ...]

    @property
    def monotone(self) -> bool:
        """Whether no higher preference cost less, as measured."""
        costs = [point.cost_usd for point in self.preferences]
        return all(one <= other for one, other in pairwise(costs))

    @property
    def curve(self) -> list[tuple[float, float]]:
        """Mean cost and success of each preference."""
        return [(point.cost_usd, point.success.mean) for point in self.preferences]

    def remark(self) -> str:
        """A line that sums it up."""
        below = [row for row, gap in self.above.items() if gap.mean < 0]
        order = "rises" if self.monotone else "does not always rise"
        where = f"below {', '.join(below)}" if below else "below none of the other rows"
        area = f"hypervolume {self.hypervolume:.3f} ({self.hypervolume_of_rows:.3f} of the other rows)"
        return (
            f"Preferences of {self.planner} (workers by the estimate): mean cost {order} with prefer, "
            f"the curve is {where} at their cost, {area}, calibration error of forecasts {self.ece:.3f}."
        )

    def to_dict(self) -> dict[str, Any]:
        return {
            "planner": self.planner,
            "preferences": [point.to_dict() for point in self.preferences],
            "min_success": [point.to_dict() for point in self.least],
            "cost_is_monotone": self.monotone,
            "hypervolume": number(self.hypervolume),
            "hypervolume_of_rows": number(self.hypervolume_of_rows),
            "above": {row: gap.to_dict() for row, gap in self.above.items()},
            "ece": number(self.ece),
            "reliability": [list(row) for row in self.reliability],
        }


async def sweep_preferences(
    planner: str,
    plans: Sequence[Plan],
    forecaster: PoolForecaster,
    runner: Runner,
    rows: Sequence[SystemRow],
    start: Callable[[str], Callable[[], None]],
    *,
    longest: int,
) -> PreferenceSweep:
    """Give a planner's plans the workers that each preference asks for, and run them.

    A plan of which nobody knows how sure it is counts as right.

    Args:
        plans: one per task of the runner, as they are without a preference.
        rows: to compare the curve with.
        start: begins a row on the progress bar.
        longest: most workers to ask for one step.
    """
    every = zip(plans, runner.tasks, strict=True)
    forecasters = await asyncio.to_thread(lambda: [forecaster.of(plan, task.instruction) for plan, task in every])
    swept: dict[str, SystemRow] = {}
    points: list[SweptPoint] = []
    forecasts: list[Values] = []
    for name, prefer, least in [
        *((f"prefer {prefer:g}", prefer, 0.0) for prefer in PREFERENCES),
        *((f"min_success {least:g}", 0.0, least) for least in LEAST),
    ]:
        chosen, expected = [], np.full((2, len(plans)), np.nan)
        for place, (plan, its) in enumerate(zip(plans, forecasters, strict=True)):
            made, found = _chosen(plan, its, prefer, least, longest)
            chosen.append(made)
            expected[:, place] = found
        row = await runner.run(name, chosen, start(name))
        asked = np.isfinite(expected[0])
        solved, cost, latency = (row.values(field)[asked] for field in ("success", "cost_usd", "latency_ms"))
        success, usd = (mean(values[asked]) for values in expected)
        point = SweptPoint(name, int(asked.sum()), proportion(solved), success, mean(cost), usd, mean(latency))
        points.append(point)
        if not least:
            swept[name] = row
            forecasts.append(expected[0])
    runner.refuse_if_broken()
    solved = np.concatenate([row.values("success") for row in swept.values()])
    most_usd = max(mean(row.values("cost_usd")) for row in (*swept.values(), *rows))
    above = {}
    for row in rows:  # success of the best preference at no more than the row's cost, minus the row's
        most = mean(row.values("cost_usd")) * (1 + 1e-9)
        cheap = [one.values("success") for one in swept.values() if mean(one.values("cost_usd")) <= most]
        best = max(cheap, key=mean, default=np.zeros(len(plans)))
        above[row.name] = paired_difference(best, row.values("success"))
    return PreferenceSweep(
        planner,
        tuple(points[: len(PREFERENCES)]),
        tuple(points[len(PREFERENCES) :]),
        _dominated(swept.values(), most_usd),
        _dominated(rows, most_usd),
        above,
        expected_calibration_error(np.concatenate(forecasts), solved),
        tuple(tuple(bin_) for bin_ in reliability(np.concatenate(forecasts), solved).tolist()),
    )


def _chosen(
    plan: Plan, forecaster: PlanForecaster | None, prefer: float, least: float, longest: int
) -> tuple[Plan, tuple[float, float]]:
    """The plan at a preference with its expected success and cost; NaN, and no plan, where these are not enough."""
    if forecaster is not None:
        pool = forecaster.pool.estimate
        options = forecaster.options(pool.workers, longest)
        order = by_preference(options.success, options.price / max(pool.typical_usd, 1e-12), prefer)
        best = next((int(one) for one in order if options.success[one] >= least), None)
        if best is not None:
            made = replace(plan, workflow=forecaster.with_workers(options.workers[best]), decisions=None, logp=None)
            return made, (options.success[best], options.spending[best, 0])
    if least:
        plan = replace(plan, workflow=None, error="no choice of workers is sure enough")
    return plan, (np.nan, np.nan)


def _dominated(rows: Iterable[SystemRow], most_usd: float) -> float:
    """The hypervolume of the rows' mean costs and successes, over costs up to `most_usd`."""
    means = [(mean(row.values("cost_usd")), mean(row.values("success"))) for row in rows]
    cost, success = np.array(means).reshape(-1, 2).T
    return hypervolume(cost, success, most_usd) if most_usd > 0 else float(np.max(success, initial=0.0))
