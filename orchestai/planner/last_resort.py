"""Somebody who can answer every step, where a planner has not learned that tools are enough."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from orchestai.execution.request import visible_examples
from orchestai.planner.base import Plan
from orchestai.tasks.task import Task
from orchestai.workers.base import WorkerCard
from orchestai.workflow import Subtask, Workflow


def with_last_resort(
    tasks: Sequence[Task], plans: Sequence[Plan], cards: Sequence[WorkerCard], strongest: str, *, learned: bool
) -> list[Plan]:
    """The plans with one more fallback for steps that tools alone are asked for: many a tool refuses most steps.

    A planner that has learned its pool knows where a tool is enough, from programs whose steps showed examples. Where a
    step shows none, as hardly any in everyday wording does, or of another pool, it goes by words alone.

    Args:
        strongest: who is asked last.
        learned: whether the planner has learned this pool.
    """
    tools = {card.name for card in cards if card.kind == "tool"}

    def guessed(task: Task, workflow: Workflow, step: Subtask) -> bool:
        return not learned or (task.wants_program and not visible_examples(task, workflow, step))

    def resorted(task: Task, plan: Plan) -> Plan:
        if plan.workflow is None:
            return plan
        left = [
            step
            for step in plan.workflow.subtasks
            if tools.issuperset(step.workers) and guessed(task, plan.workflow, step)
        ]
        more = {step.id: {"fallback": (*step.fallback, strongest)} for step in left if strongest not in step.workers}
        return replace(plan, workflow=plan.workflow.replace(more)) if more else plan

    return [resorted(task, plan) for task, plan in zip(tasks, plans, strict=True)]


def with_all_others(plans: Sequence[Plan], others: Sequence[str]) -> list[Plan]:
    """The plans of a planner that goes by cards alone, with everybody else as fallbacks: one who declines costs little.

    Args:
        others: in the order in which they are asked.
    """

    def extended(plan: Plan) -> Plan:
        if plan.workflow is None:
            return plan
        more = {
            step.id: {"fallback": (*step.fallback, *(name for name in others if name not in step.workers))}
            for step in plan.workflow.subtasks
        }
        return replace(plan, workflow=plan.workflow.replace(more))

    return [extended(plan) for plan in plans]
