"""A workflow: a directed acyclic graph of subtasks. An edge carries the parent's output to the child."""

from __future__ import annotations

import heapq
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import combinations
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator, model_validator

from orchestai.errors import first_problem


class WorkflowError(ValueError):
    """The subtasks do not form a workflow; the message names the subtask and the fault."""


class Subtask(BaseModel):
    """One node of a workflow.

    Attributes:
        id: unique within the workflow.
        instruction: the subtask in words; a `span` of the task's instruction or the planner's own text.
        task_type: one of the configured task types.
        worker: the worker that is asked first; empty while nobody is assigned (reference decompositions).
        role: a role instruction for the worker.
        depends_on: ids of the parents, in the order in which their outputs become arguments.
        fallback: workers asked in turn when the subtask's own check fails.
        span: [start, end) character offsets of `instruction` in the task's instruction, if it is a span of it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str = Field(min_length=1)
    instruction: str
    task_type: str = ""
    worker: str = ""
    role: str = ""
    depends_on: tuple[str, ...] = ()
    fallback: tuple[str, ...] = ()
    span: tuple[int, int] | None = None

    @field_validator("id", mode="before")
    @classmethod
    def _id_as_text(cls, value: Any) -> Any:
        return _number_as_text(value)

    @field_validator("depends_on", mode="before")
    @classmethod
    def _parents_as_text(cls, value: Any) -> Any:
        return [_number_as_text(parent) for parent in value] if isinstance(value, list | tuple) else value

    @property
    def workers(self) -> tuple[str, ...]:
        """The worker and its fallbacks, in the order in which they are asked, each once."""
        return tuple(dict.fromkeys((self.worker, *self.fallback)))


def _number_as_text(value: Any) -> Any:
    return str(int(value)) if type(value) in (int, float) and value % 1 == 0 else value


class Workflow(BaseModel):
    """Subtasks that form a DAG. Construction raises `WorkflowError` (or pydantic's error inside it) otherwise."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    subtasks: tuple[Subtask, ...]

    def __init__(self, subtasks: Sequence[Subtask | Mapping[str, Any]] = (), **extra: Any) -> None:
        try:
            super().__init__(subtasks=subtasks, **extra)
        except ValidationError as error:
            raise WorkflowError(first_problem(error)) from None

    @model_validator(mode="after")
    def _is_dag(self) -> Workflow:
        if not self.subtasks:
            raise ValueError("a workflow needs at least one subtask")
        ids = [subtask.id for subtask in self.subtasks]
        known = set(ids)
        if len(known) != len(ids):
            twice = next(i for i in ids if ids.count(i) > 1)
            raise ValueError(f"subtask id {twice!r} is used more than once")
        for subtask in self.subtasks:
            if len(set(subtask.depends_on)) != len(subtask.depends_on):
                raise ValueError(f"subtask {subtask.id!r} names a parent twice: {list(subtask.depends_on)}")
            for parent in subtask.depends_on:
                if parent == subtask.id:
                    raise ValueError(f"subtask {subtask.id!r} depends on itself")
                if parent not in known:
                    raise ValueError(f"subtask {subtask.id!r} depends on {parent!r}, which does not exist")
        if len(self._order) < len(ids):
            # Whoever cannot be ordered has a parent that cannot.
            stuck = {subtask.id: subtask for subtask in self.subtasks if subtask not in self._order}
            path = [next(iter(stuck))]
            while path[-1] not in path[:-1]:
                path.append(next(parent for parent in stuck[path[-1]].depends_on if parent in stuck))
            cycle = path[path.index(path[-1]) + 1 :][::-1]
            raise ValueError(f"the dependencies form a cycle: {' -> '.join(cycle)}")
        return self

    def __len__(self) -> int:
        return len(self.subtasks)

    def __getitem__(self, subtask_id: str) -> Subtask:
        for subtask in self.subtasks:
            if subtask.id == subtask_id:
                return subtask
        raise KeyError(subtask_id)

    def edges(self) -> set[tuple[str, str]]:
        """From each parent to its child."""
        return {(parent, subtask.id) for subtask in self.subtasks for parent in subtask.depends_on}

    def order(self) -> list[Subtask]:
        """The subtasks in a topological order; ties keep the order in which they are listed."""
        return list(self._order)

    def sinks(self) -> list[Subtask]:
        """The subtasks that no other depends on, in the order listed."""
        parents = {parent for subtask in self.subtasks for parent in subtask.depends_on}
        return [subtask for subtask in self.subtasks if subtask.id not in parents]

    def answering(self) -> str:
        """Id of the subtask that answers for the whole task: the last sink."""
        sinks = {subtask.id for subtask in self.sinks()}
        return [subtask.id for subtask in self._order if subtask.id in sinks][-1]

    def needed(self) -> set[str]:
        """Ids of the subtask that answers and of all that it depends on."""
        return self.needed_for(self.answering())

    def needed_for(self, subtask_id: str) -> set[str]:
        """Its id and those of all subtasks that it depends on."""
        needed = {subtask_id}
        for subtask in reversed(self._order):
            if subtask.id in needed:
                needed.update(subtask.depends_on)
        return needed

    def repeats(self) -> bool:
        """Whether two subtasks have the same words and type, and the same parents or one the other as parent."""
        return any(
            a.instruction == b.instruction
            and (a.span, a.task_type) == (b.span, b.task_type)
            and (set(a.depends_on) == set(b.depends_on) or a.id in b.depends_on or b.id in a.depends_on)
            for a, b in combinations(self.subtasks, 2)
        )

    @cached_property
    def _order(self) -> tuple[Subtask, ...]:
        """After A. B. Kahn, "Topological sorting of large networks" (1962); without what is on a cycle or after one."""
        place = {subtask.id: i for i, subtask in enumerate(self.subtasks)}
        missing = [len(subtask.depends_on) for subtask in self.subtasks]
        children: list[list[int]] = [[] for _ in self.subtasks]
        for i, subtask in enumerate(self.subtasks):
            for parent in subtask.depends_on:
                children[place[parent]].append(i)
        ready = [i for i, parents in enumerate(missing) if not parents]
        order = []
        while ready:
            i = heapq.heappop(ready)
            order.append(self.subtasks[i])
            for child in children[i]:
                missing[child] -= 1
                if not missing[child]:
                    heapq.heappush(ready, child)
        return tuple(order)

    def adjacency(self) -> list[list[int]]:
        """(n, n) matrix in the order listed; entry [i][j] is 1 where subtask j depends on subtask i."""
        place = {subtask.id: i for i, subtask in enumerate(self.subtasks)}
        matrix = [[0] * len(self) for _ in self.subtasks]
        for j, subtask in enumerate(self.subtasks):
            for parent in subtask.depends_on:
                matrix[place[parent]][j] = 1
        return matrix

    def dependencies(self) -> list[list[int]]:
        """For each subtask, in the order listed, the indices of its parents in argument order."""
        place = {subtask.id: i for i, subtask in enumerate(self.subtasks)}
        return [[place[parent] for parent in subtask.depends_on] for subtask in self.subtasks]

    def critical_path(self, weight: Mapping[str, float]) -> float:
        """The largest sum of `weight[id]` along a path of the DAG (with latencies as weights: the latency)."""
        finish: dict[str, float] = {}
        for subtask in self.order():
            start = max((finish[parent] for parent in subtask.depends_on), default=0.0)
            finish[subtask.id] = start + weight.get(subtask.id, 0.0)
        return max(finish.values())

    def replace(self, changes: Mapping[str, Mapping[str, Any]]) -> Workflow:
        """A new workflow in which `changes[id]` overrides fields of that subtask."""
        return Workflow([subtask.model_copy(update=dict(changes.get(subtask.id, {}))) for subtask in self.subtasks])

    def to_dict(self) -> dict[str, Any]:
        """JSON-ready; `Workflow(**d)` gives the same workflow back."""
        return self.model_dump(mode="json", exclude_defaults=True) | {
            "subtasks": [subtask.model_dump(mode="json", exclude_defaults=True) for subtask in self.subtasks]
        }
