"""A planner that decides everything at random: the floor of every comparison."""

from __future__ import annotations

import random
from collections.abc import Sequence

from orchestai.config import PlannerConfig
from orchestai.planner.base import Plan
from orchestai.planner.baselines.assignment import RandomAssignment, assign, randomness
from orchestai.planner.clauses import clauses
from orchestai.tasks.task import Task
from orchestai.tasks.visible_examples import clean
from orchestai.workflow import Subtask, Workflow

_EDGE_PROBABILITY = 0.5


class RandomPlanner:
    """Random clauses of the instruction, random types, random workers and random forward edges."""

    def __init__(self, names: Sequence[str], config: PlannerConfig, seed: int = 0) -> None:
        self._assignment = RandomAssignment(tuple(names), config.max_fallbacks)
        self._config = config
        self._seed = seed

    def plan(self, tasks: Sequence[Task]) -> list[Plan]:
        return [Plan(workflow=self._workflow(task, randomness(self._seed, task)), raw_valid=True) for task in tasks]

    def _workflow(self, task: Task, rng: random.Random) -> Workflow:
        spans = clauses(task.instruction)
        length = rng.randint(1, min(len(spans), self._config.max_subtasks))
        subtasks = [
            Subtask(
                id=str(i + 1),
                instruction=clean(task.instruction[start:end]),
                span=(start, end),
                task_type=rng.choice(self._config.task_types),
                depends_on=tuple(str(j + 1) for j in range(i) if rng.random() < _EDGE_PROBABILITY),
            )
            for i, (start, end) in enumerate(sorted(rng.sample(spans, length)))
        ]
        return assign(Workflow(subtasks), self._assignment, rng)
