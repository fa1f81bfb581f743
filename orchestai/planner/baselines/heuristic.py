"""A planner of hand-written rules: clauses in the order of the text, chained, typed by keywords."""

from __future__ import annotations

import random
from collections.abc import Sequence

from orchestai.config import PlannerConfig
from orchestai.planner.base import Plan
from orchestai.planner.baselines.assignment import FixedAssignment, assign
from orchestai.planner.clauses import clauses, guess_type
from orchestai.tasks.task import Task
from orchestai.tasks.visible_examples import clean
from orchestai.workflow import Subtask, Workflow


class HeuristicPlanner:
    """Every clause is a subtask on the one before it; all subtasks ask the same workers, cheap to strong.

    Args:
        cascade: names of workers in the order in which they are asked; `config.max_fallbacks` of them follow the first.
    """

    def __init__(self, cascade: Sequence[str], config: PlannerConfig) -> None:
        self._assignment = FixedAssignment(tuple(cascade[: 1 + config.max_fallbacks]))
        self._config = config

    def plan(self, tasks: Sequence[Task]) -> list[Plan]:
        unused = random.Random(0)
        plans = [assign(self._workflow(task), self._assignment, unused) for task in tasks]
        return [Plan(workflow=plan, raw_valid=all(step.instruction for step in plan.subtasks)) for plan in plans]

    def _workflow(self, task: Task) -> Workflow:
        spans = clauses(task.instruction)[: self._config.max_subtasks]
        return Workflow(
            [
                Subtask(
                    id=str(i + 1),
                    instruction=clean(task.instruction[start:end]),
                    span=(start, end),
                    task_type=guess_type(task.instruction[start:end], self._config.task_types),
                    depends_on=(str(i),) if i else (),
                )
                for i, (start, end) in enumerate(spans)
            ]
        )
