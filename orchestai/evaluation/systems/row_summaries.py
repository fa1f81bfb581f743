"""From the rows' results to the figures of evaluation.json, and to the two lines that say what was learned."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from orchestai.evaluation.statistics import Interval, bootstrap_mean, mean, number, paired_difference, proportion
from orchestai.evaluation.systems.baselines import ORACLE, WHOLE, WHOLE_CASCADE
from orchestai.evaluation.systems.results import SystemRow
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
    summaries: Sequence[RowSummary],
    differences: Sequence[Difference],
    shares: Mapping[str, float | None],
) -> str:
    """Two lines: what orchestration gave, and what learning gave, each as strong as its interval and no stronger.

    Args:
        planners: names of the trained planners' rows; the last one is spoken of.
        differences: those of the last planner are read.
        shares: of the oracle's reward, by row.
    """
    ours = planners[-1]
    by_name = {summary.name: summary for summary in summaries}
    mine = [d for d in differences if d.of == ours and d.to != ORACLE and d.reward.n]
    return _orchestration(by_name[ours], summaries) + "\n" + _learning(ours, planners[:-1], mine, shares.get(ours))


def _orchestration(ours: RowSummary, summaries: Sequence[RowSummary]) -> str:
    if ours.success is None:
        return f"{ours.name} could not be judged on any of the {ours.n} tasks."
    said = f"{ours.name} solves {ours.success:.1%} of {ours.n} {ours.suite} tasks at {_usd(ours.cost_usd)} a task"
    singles = [s for s in summaries if s.name.startswith(WHOLE) and s.name != WHOLE_CASCADE and s.success is not None]
    if not singles:
        return said + "."
    best = max(singles, key=lambda single: single.success or 0.0)
    name, cost = best.name.removeprefix(WHOLE), _usd(best.cost_usd)
    if not best.success:
        return f"{said}; asked whole, no single worker solves any."
    times = f"{ours.success / best.success:.1f} times" if ours.success >= best.success else "less than"
    return f"{said}, {times} what the best single worker asked whole does ({name}: {best.success:.1%} at {cost})."


def _learning(ours: str, earlier: Sequence[str], mine: Sequence[Difference], share: float | None) -> str:
    said = [
        f"{d.reward.mean:+.2f} [{d.reward.low:+.2f}, {d.reward.high:+.2f}] against {d.to}"
        for d in mine
        if d.to in earlier
    ]
    others = [d for d in mine if d.to not in earlier]
    above = [d.to for d in others if d.reward.low > 0]
    even = [d.to for d in others if not d.reward.excludes_zero()]
    below = [d.to for d in others if d.reward.high < 0]
    if others:
        said.append(f"above {len(above)} of {len(others)} baselines")
    if even:
        said.append(f"not told apart from {_listed(even)}")
    if below:
        said.append(f"below {_listed(below)}")
    if share is not None:
        said.append(f"{share:.0%} of the oracle's")
    return f"Reward of {ours} (paired, 95 % intervals): {'; '.join(said) or 'nothing to compare it with'}."


def _listed(names: Sequence[str]) -> str:
    return names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"


def _usd(value: float | None) -> str:
    return "unknown cost" if value is None else f"{value:.2g} USD"
