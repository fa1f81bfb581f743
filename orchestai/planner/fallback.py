"""Plans by the first of several planners that is sure of its own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from orchestai.planner.base import Plan, Planner, Preferences, PreferringPlanner
from orchestai.tasks.task import Task


class FallbackPlanner:
    """Asks planners in turn: a plan that is invalid, or of which its planner is not sure, is left to the next.

    The last one is not asked how sure it is; where it makes no plan, the first valid plan of the others is taken. Each
    plan that was left to another says so in `planned_by`.

    Args:
        planners: by what they are called; the first leads.
        min_confidence: below it, in [0, 1], a planner is not sure. One that does not say is.

    Attributes:
        prefers: whether any of them has learned to choose workers by a preference; the others leave that open.
    """

    def __init__(self, planners: Mapping[str, Planner], min_confidence: float) -> None:
        if not planners:
            raise ValueError("no planner is given")
        self._planners = list(planners.items())
        self._min_confidence = min_confidence
        self.prefers = any(isinstance(one, PreferringPlanner) and one.prefers for one in planners.values())

    def plan(self, tasks: Sequence[Task], *, preferences: Preferences | None = None) -> list[Plan]:
        attempts: list[list[tuple[str, Plan]]] = [[] for _ in tasks]
        left = list(range(len(tasks)))
        for name, planner in self._planners:
            if not left:
                break
            for i, plan in zip(left, _plan(planner, left, tasks, preferences), strict=True):
                attempts[i].append((name, plan))
            left = [i for i in left if doubt_of(attempts[i][-1][1], self._min_confidence)]
        return [self._chosen(each) for each in attempts]

    def _chosen(self, attempts: Sequence[tuple[str, Plan]]) -> Plan:
        """The last plan, or the first valid one where that is none."""
        (name, plan), doubted = attempts[-1], attempts[:-1]
        valid = [attempt for attempt in doubted if attempt[1].workflow is not None and attempt[1].raw_valid]
        if plan.workflow is None and valid:
            (name, plan), doubted = valid[0], attempts
        doubts = [f"{who} {doubt_of(made, self._min_confidence)}" for who, made in doubted]
        return replace(plan, planned_by=f"{name}, as {'; '.join(doubts)}") if doubts else plan


def doubt_of(plan: Plan, min_confidence: float) -> str:
    """What its planner did, that the plan is left to the next one; empty where it is not.

    A plan of one step asks for the whole in any case.
    """
    if plan.fault is not None:
        return f"could not plan ({plan.fault.reason})"
    if plan.workflow is None:
        return f"made no plan ({plan.error})"
    if not plan.raw_valid:
        return "made an invalid plan"
    if len(plan.workflow) > 1 and plan.confidence is not None and plan.confidence < min_confidence:
        return f"was not sure ({plan.confidence:.2f})"
    return ""


def _plan(
    planner: Planner, numbers: Sequence[int], tasks: Sequence[Task], preferences: Preferences | None
) -> list[Plan]:
    """Plans for the tasks of those numbers, by preference where the planner has learned that."""
    some = [tasks[i] for i in numbers]
    if preferences is not None and isinstance(planner, PreferringPlanner) and planner.prefers:
        return planner.plan(some, preferences=[preferences[i] for i in numbers])
    return planner.plan(some)
