"""Which workers are asked for which subtask of a given decomposition, and the random numbers behind such choices."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from orchestai.tasks.task import Task
from orchestai.workflow import Subtask, Workflow


class Assignment(Protocol):
    """Gives each subtask its workers: the first is asked first, the others are its fallbacks in order."""

    def __call__(self, subtasks: Sequence[Subtask], rng: random.Random) -> list[tuple[str, ...]]: ...


@dataclass(frozen=True)
class FixedAssignment:
    """The same workers for every subtask."""

    workers: tuple[str, ...]

    def __call__(self, subtasks: Sequence[Subtask], rng: random.Random) -> list[tuple[str, ...]]:
        return [self.workers] * len(subtasks)


@dataclass(frozen=True)
class RandomAssignment:
    """For each subtask a random worker and `fallbacks` (fewer in a small pool) random others, all distinct."""

    names: tuple[str, ...]
    fallbacks: int

    def __call__(self, subtasks: Sequence[Subtask], rng: random.Random) -> list[tuple[str, ...]]:
        asked = min(1 + self.fallbacks, len(self.names))
        return [tuple(rng.sample(self.names, asked)) for _ in subtasks]


def randomness(seed: int, task: Task) -> random.Random:
    """Random numbers that depend on the seed and the task alone, not on the order or grouping of the tasks."""
    return random.Random(f"{seed}/{task.suite}/{task.task_id}")


def assign(workflow: Workflow, assignment: Assignment, rng: random.Random) -> Workflow:
    """The same decomposition with the workers that `assignment` chooses."""
    chosen = assignment(workflow.subtasks, rng)
    return workflow.replace(
        {
            subtask.id: {"worker": workers[0], "fallback": workers[1:]}
            for subtask, workers in zip(workflow.subtasks, chosen, strict=True)
        }
    )
