"""Plans as parallel lists of indices: the short form of the training file, and what tensors are made of."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from orchestai.config import Config
from orchestai.workflow import Subtask, Workflow, WorkflowError


@dataclass(frozen=True)
class Vocabulary:
    """The names that indices refer to: `planner.task_types`, and the workers of the pool in its order."""

    task_types: tuple[str, ...]
    workers: tuple[str, ...]

    @classmethod
    def of(cls, config: Config) -> Vocabulary:
        return cls(config.planner.task_types, tuple(config.workers.pool))


class IndexedPlan(BaseModel):
    """A plan to imitate; every list has one entry per subtask, in the order of the plan.

    Attributes:
        model_selections: index of the worker in the pool; None where nobody was chosen (that choice is not trained).
        task_types: index into `planner.task_types`; None where nobody named a type (that choice is not trained).
        dependencies: indices of the parents, in argument order.
        spans: [start, end) character offsets of the subtask's words in the instruction; None where it has words of
            its own.
        fallback: indices of the workers to ask next, in turn; None where nobody knows.
        instructions: the subtask's words.
        ids: names of the subtasks, each once; 1, 2, ... where the source has none.
        durations: seconds that each takes, where the source says so.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    model_selections: tuple[int | None, ...] = Field(min_length=1)
    task_types: tuple[int | None, ...]
    dependencies: tuple[tuple[int, ...], ...]
    spans: tuple[tuple[int, int] | None, ...] = ()
    fallback: tuple[tuple[int, ...] | None, ...] = ()
    instructions: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()
    durations: tuple[float | None, ...] = ()

    @model_validator(mode="before")
    @classmethod
    def _fill(cls, data: Any) -> Any:
        """The short form has only the three required lists."""
        if not isinstance(data, dict) or not isinstance(data.get("model_selections"), list | tuple):
            return data
        n = len(data["model_selections"])
        return {
            "spans": [None] * n,
            "fallback": [[]] * n,
            "instructions": [""] * n,
            "ids": [str(i + 1) for i in range(n)],
            "durations": [None] * n,
        } | data

    @model_validator(mode="after")
    def _same_lengths(self) -> IndexedPlan:
        n = len(self.model_selections)
        for name in type(self).model_fields:
            if len(getattr(self, name)) != n:
                raise ValueError(f"{name} has {len(getattr(self, name))} entries, but model_selections has {n}")
        return self

    @classmethod
    def of(cls, workflow: Workflow, vocabulary: Vocabulary) -> IndexedPlan:
        """The plan of a workflow.

        Raises:
            WorkflowError: a type or a worker is not in the vocabulary.
        """
        subtasks = workflow.subtasks
        types, workers = (
            _places(vocabulary.task_types, "planner.task_types"),
            _places(vocabulary.workers, "workers.pool"),
        )
        return cls(
            model_selections=tuple(workers(subtask.worker) if subtask.worker else None for subtask in subtasks),
            task_types=tuple(types(subtask.task_type) if subtask.task_type else None for subtask in subtasks),
            dependencies=tuple(map(tuple, workflow.dependencies())),
            spans=tuple(subtask.span for subtask in subtasks),
            fallback=tuple(tuple(map(workers, subtask.fallback)) for subtask in subtasks),
            instructions=tuple(subtask.instruction for subtask in subtasks),
            ids=tuple(subtask.id for subtask in subtasks),
        )

    def workflow(self, vocabulary: Vocabulary) -> Workflow:
        """The same with names.

        Raises:
            WorkflowError: an index is outside the vocabulary or the plan, or the plan is no DAG.
        """
        self._check(vocabulary)
        return Workflow(
            [
                Subtask(
                    id=self.ids[i],
                    instruction=self.instructions[i],
                    task_type="" if (kind := self.task_types[i]) is None else vocabulary.task_types[kind],
                    worker="" if (worker := self.model_selections[i]) is None else vocabulary.workers[worker],
                    depends_on=tuple(self.ids[parent] for parent in parents),
                    fallback=tuple(vocabulary.workers[further] for further in self.fallback[i] or ()),
                    span=self.spans[i],
                )
                for i, parents in enumerate(self.dependencies)
            ]
        )

    def targets(self) -> dict[str, list[Any]]:
        """The three lists that every training file has."""
        return self.model_dump(mode="json", include={"model_selections", "task_types", "dependencies"})

    def seconds(self) -> dict[str, float]:
        """By the subtasks' ids, where known."""
        return {id: seconds for id, seconds in zip(self.ids, self.durations, strict=True) if seconds is not None}

    def _check(self, vocabulary: Vocabulary) -> None:
        workers = [*self.model_selections, *(worker for row in self.fallback for worker in row or ())]
        parents = [parent for row in self.dependencies for parent in row]
        for field, indices, size, what in (
            ("task_types", self.task_types, len(vocabulary.task_types), "planner.task_types"),
            ("model_selections or fallback", workers, len(vocabulary.workers), "workers.pool"),
            ("dependencies", parents, len(self.dependencies), "the plan"),
        ):
            outside = [index for index in indices if index is not None and not 0 <= index < size]
            if outside:
                raise WorkflowError(f"targets.{field}: index {outside[0]}, but {what} has {size} entries")


def _places(names: Sequence[str], key: str) -> Callable[[str], int]:
    places = {name: i for i, name in enumerate(names)}

    def place(name: str) -> int:
        if name not in places:
            raise WorkflowError(f"{name!r} is not in {key}")
        return places[name]

    return place
