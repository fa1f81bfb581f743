"""Plans whose decomposition is known beforehand: the task's reference, or the whole task as one subtask."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace

from orchestai.planner.base import Plan, Planner
from orchestai.planner.baselines.assignment import Assignment, FixedAssignment, assign, randomness
from orchestai.tasks.task import Task
from orchestai.workflow import Subtask, Workflow


class ReferencePlanner:
    """The task's reference decomposition with workers by `assignment`.

    Args:
        seed: another one for each repetition, where the assignment is random.
        decomposer: plans the tasks for which nobody knows a reference; without one, these are one subtask.
    """

    def __init__(self, assignment: Assignment, seed: int = 0, decomposer: Planner | None = None) -> None:
        self._assignment = assignment
        self._seed = seed
        self._decomposer = decomposer

    def plan(self, tasks: Sequence[Task]) -> list[Plan]:
        unknown = [task for task in tasks if needs_decomposer(task)] if self._decomposer is not None else []
        found = zip(unknown, self._decomposer.plan(unknown) if self._decomposer is not None else (), strict=True)
        decomposed = {task.task_id: plan for task, plan in found}
        return [self._assigned(task, decomposed.get(task.task_id) or _known(task)) for task in tasks]

    def _assigned(self, task: Task, plan: Plan) -> Plan:
        if plan.workflow is None:
            return plan
        return replace(plan, workflow=assign(plan.workflow, self._assignment, randomness(self._seed, task)))


class WholePlanner:
    """Asks one worker for the whole task; `fallback` workers follow when its answer fails the task's examples."""

    def __init__(self, worker: str, fallback: Sequence[str] = ()) -> None:
        self._assignment = FixedAssignment((worker, *fallback))

    def plan(self, tasks: Sequence[Task]) -> list[Plan]:
        unused = random.Random(0)
        return [Plan(workflow=assign(whole_task(task), self._assignment, unused), raw_valid=True) for task in tasks]


def needs_decomposer(task: Task) -> bool:
    """Whether somebody has to split the task; one that completes a given program head is a single function."""
    return task.reference is None and not (task.complete_prompt or task.code_prompt)


def _known(task: Task) -> Plan:
    return Plan(workflow=task.reference or whole_task(task), raw_valid=True)


def whole_task(task: Task) -> Workflow:
    """The task as a workflow of one subtask, without a type or a worker."""
    return Workflow([Subtask(id="1", instruction=task.instruction, span=(0, len(task.instruction)))])
