"""Somebody who can answer every step, where a planner chose from a pool that it has not learned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from orchestai.planner.base import Plan
from orchestai.workers.base import WorkerCard


def with_last_resort(plans: Sequence[Plan], cards: Sequence[WorkerCard], strongest: str) -> list[Plan]:
    """The plans with one more fallback for steps that tools alone are asked for: many a tool refuses most steps.

    A planner that has learned its pool knows where a tool is enough. Of another pool it goes by the cards' words alone.

    Args:
        strongest: who is asked last.
    """
    tools = {card.name for card in cards if card.kind == "tool"}

    def resorted(plan: Plan) -> Plan:
        if plan.workflow is None:
            return plan
        left = [one for one in plan.workflow.subtasks if tools.issuperset(one.workers)]
        more = {one.id: {"fallback": (*one.fallback, strongest)} for one in left if strongest not in one.workers}
        return replace(plan, workflow=plan.workflow.replace(more)) if more else plan

    return [resorted(plan) for plan in plans]
