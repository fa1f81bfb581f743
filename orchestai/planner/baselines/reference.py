"""Plans whose decomposition is known beforehand: the task's reference, or the whole task as one subtask."""

from __future__ import annotations

import random
from collections.abc import Sequence

from orchestai.planner.base import Plan
from orchestai.planner.baselines.assignment import Assignment, FixedAssignment, assign, randomness
from orchestai.tasks.task import Task
from orchestai.workflow import Subtask, Workflow


class ReferencePlanner:
    """The task's reference decomposition, or the whole task where nobody knows one, with workers by `assignment`.

    Args:
        seed: another one for each repetition, where the assignment is random.
    """

    def __init__(self, assignment: Assignment, seed: int = 0) -> None:
        self._assignment = assignment
        self._seed = seed

    def plan(self, tasks: Sequence[Task]) -> list[Plan]:
        return [Plan(workflow=self._workflow(task), raw_valid=True) for task in tasks]

    def _workflow(self, task: Task) -> Workflow:
        return assign(task.reference or whole_task(task), self._assignment, randomness(self._seed, task))


class WholePlanner:
    """Asks one worker for the whole task; `fallback` workers follow when its answer fails the task's examples."""

    def __init__(self, worker: str, fallback: Sequence[str] = ()) -> None:
        self._assignment = FixedAssignment((worker, *fallback))

    def plan(self, tasks: Sequence[Task]) -> list[Plan]:
        unused = random.Random(0)
        return [Plan(workflow=assign(whole_task(task), self._assignment, unused), raw_valid=True) for task in tasks]


def whole_task(task: Task) -> Workflow:
    """The task as a workflow of one subtask, without a type or a worker."""
    return Workflow([Subtask(id="1", instruction=task.instruction, span=(0, len(task.instruction)))])
