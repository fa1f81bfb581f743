"""Decompositions of tasks for which nobody knows one: a language model's, else the base planner's, or by rules."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from orchestai.planner.base import Plan, Planner
from orchestai.tasks.task import Task


class Decomposer:
    """Splits each task once, however often it is planned; asking again would be paid again.

    Plans say who decomposed them in `decomposed_by`; only the first of a task has its `usage`. What a fault left
    unplanned is asked again.

    Args:
        otherwise: plans whatever the model has no valid plan for.
        called: what that planner is called.
        model: a language model; without one the rules plan alone.
        name: what the model is called.
    """

    def __init__(self, otherwise: Planner, called: str, model: Planner | None = None, name: str = "") -> None:
        self._otherwise = otherwise
        self._called = called
        self._model = model
        self._name = name
        self._known: dict[str, Plan] = {}

    @property
    def description(self) -> str:
        """Who decomposes, for people."""
        if self._model is None:
            return f"by {self._called} (set workers.planner_model for a language model's)"
        return (
            f"by the language model {self._name!r} (workers.planner_model), and where it gives no valid plan by "
            f"{self._called}"
        )

    def plan(self, tasks: Sequence[Task]) -> list[Plan]:
        new = [task for task in tasks if task.instruction not in self._known]
        plans = dict(self._known)
        for task, plan in zip(new, self._decomposed(new), strict=True):
            plans[task.instruction] = plan
            if plan.fault is None:
                self._known[task.instruction] = replace(plan, usage=None)
        return [plans[task.instruction] for task in tasks]

    def _decomposed(self, tasks: Sequence[Task]) -> list[Plan]:
        if self._model is None:
            return [replace(plan, decomposed_by=self._called) for plan in self._otherwise.plan(tasks)]
        written = self._model.plan(tasks)
        return [
            replace(plan, decomposed_by=self._name)
            if plan.workflow is not None or plan.fault is not None
            else replace(self._otherwise.plan([task])[0], decomposed_by=self._called, usage=plan.usage)
            for task, plan in zip(tasks, written, strict=True)
        ]
