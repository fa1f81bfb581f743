"""From the rows' results to the figures of evaluation.json, and to the two lines that sum them up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from orchestai.evaluation.statistics import Interval, bootstrap_mean, mean, number, paired_difference, proportion
from orchestai.evaluation.systems.baselines import ORACLE
from orchestai.evaluation.systems.runner import SystemRow
from orchestai.planner.plan_metrics import compare
from orchestai.tasks.task import Task


@dataclass(frozen=True)
class RowSummary:
    """A row's figures; means are over the tasks that could be judged, and None where there are none.

    Attributes:
        n: tasks.
        success: share of tasks with the full score (all hidden tests pass); `success_ci` is Wilson's 95 % interval.
        reward: phase 2's reward; `reward_ci` is the 95 % bootstrap interval.
        cost_usd, latency_ms: per task; the latency is the critical path.
        validity: share of plans that are valid workflows; `raw_validity` before repair.
        unscorable: share of tasks that could not be judged.
    """

    name: str
    suite: str
    n: int
    success: float | None
    success_ci: tuple[float | None, float | None]
    reward: float | None
    reward_ci: tuple[float | None, float | None]
    cost_usd: float | None
    latency_ms: float | None
    validity: float
    raw_validity: float
    unscorable: float


@dataclass(frozen=True)
class Difference:
    """`of` minus `to`, over the tasks on which both were judged, with 95 % bootstrap intervals."""

    of: str
    to: str
    reward: Interval
    success: Interval
    cost_usd: Interval

    def to_dict(self) -> dict[str, Any]:
        figures = {key: getattr(self, key).to_dict() for key in ("reward", "success", "cost_usd")}
        return {"of": self.of, "to": self.to, **figures}


def summarize(row: SystemRow, suite: str) -> RowSummary:
    n = len(row.results)
    success, reward = proportion(row.values("success")), bootstrap_mean(row.values("reward"))
    return RowSummary(
        name=row.name,
        suite=suite,
        n=n,
        success=number(success.mean),
        success_ci=(number(success.low), number(success.high)),
        reward=number(reward.mean),
        reward_ci=(number(reward.low), number(reward.high)),
        cost_usd=number(mean(row.values("cost_usd"))),
        latency_ms=number(mean(row.values("latency_ms"))),
        validity=sum(result.workflow is not None for result in row.results) / n,
        raw_validity=sum(result.raw_valid for result in row.results) / n,
        unscorable=row.unscorable / n,
    )


def difference(of: SystemRow, to: SystemRow) -> Difference:
    figures = {key: paired_difference(of.values(key), to.values(key)) for key in ("reward", "success", "cost_usd")}
    return Difference(of.name, to.name, **figures)


def oracle_share(ours: SystemRow, oracle: SystemRow) -> float | None:
    """Mean reward over the oracle's, on the tasks on which both were judged; None unless the oracle's is positive."""
    got, best = ours.values("reward"), oracle.values("reward")
    both = ~np.isnan(got) & ~np.isnan(best)
    return float(got[both].mean() / best[both].mean()) if both.any() and best[both].mean() > 0 else None


def decompositions(rows: Sequence[SystemRow], tasks: Sequence[Task]) -> dict[str, dict[str, float]]:
    """How close each row's plans come to the reference decompositions, on the tasks that have one."""
    found = {}
    for row in rows:
        pairs = [(result.workflow, task.reference) for result, task in zip(row.results, tasks, strict=True)]
        plans = [plan for plan, reference in pairs if reference is not None]
        closeness = compare(plans, [reference for _, reference in pairs if reference is not None])
        if closeness is not None:
            found[row.name] = asdict(closeness)
    return found


def conclusion(
    planners: Sequence[str],
    shown: Sequence[RowSummary],
    differences: Sequence[Difference],
    share: float | None,
) -> str:
    """Two lines: what the last planner solves, and its differences in success, as sure as their intervals.

    Args:
        planners: names of the trained planners' rows.
        shown: the rows that are spoken of, the last planner's among them.
        differences: those of the last planner are read.
        share: of the oracle's reward.
    """
    ours = next(summary for summary in shown if summary.name == planners[-1])
    if ours.success is None:
        return f"{ours.name} could not be judged on any of the {ours.n} tasks."
    low, high = (100 * (end or 0.0) for end in ours.success_ci)
    cost = "unknown cost" if ours.cost_usd is None else f"{ours.cost_usd:.2g} USD"
    of_oracle = "" if share is None else f", with {share:.0%} of the oracle's reward"
    solved = (
        f"{ours.name} solves {100 * ours.success:.1f} % [{low:.1f}, {high:.1f}] of {ours.n} {ours.suite} tasks at "
        f"{cost} a task{of_oracle}."
    )
    others = {summary.name for summary in shown} - {ORACLE}
    compared = [
        f"{100 * gap.mean:+.1f} [{100 * gap.low:+.1f}, {100 * gap.high:+.1f}] {d.to}"
        for d in differences
        if d.of == ours.name and d.to in others and (gap := d.success).n
    ]
    if not compared:
        return solved
    return f"{solved}\nPoints of success above others (paired, 95 % intervals): {'; '.join(compared)}."
