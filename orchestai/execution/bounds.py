"""What a workflow may cost at most, known before anybody is asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from orchestai.execution.ledger import pico, usd
from orchestai.execution.request import build_request
from orchestai.tasks.task import Task
from orchestai.workers.base import Request, WorstCase
from orchestai.workflow import Subtask, Workflow

Call: TypeAlias = tuple[str, str]
"""Id of a subtask, and the worker asked for it."""


class Bounded(Protocol):
    """Whoever knows what a request may cost at most (`orchestai.workers.WorkerPool`)."""

    def worst_case(self, name: str, request: Request) -> WorstCase: ...


@dataclass(frozen=True)
class PlanBounds:
    """The worst case of each call that a workflow may make: of every worker, as if all before it failed.

    The requests of later steps are bounded with long answers of the earlier ones; before a worker is asked, the bound
    is taken again with the answers that there are.
    """

    calls: Mapping[Call, WorstCase]

    @property
    def cost(self) -> int:
        """In the ledger's unit."""
        return sum(pico(worst.cost_usd) for worst in self.calls.values())

    @property
    def cost_usd(self) -> float:
        return usd(self.cost)

    @property
    def requests(self) -> int:
        return sum(worst.calls for worst in self.calls.values())


class Bounder:
    """Bounds one workflow under different assignments of workers; what it has bounded once it remembers."""

    def __init__(self, task: Task, workflow: Workflow, workers: Bounded, kind: Literal["dataflow", "sink"]) -> None:
        self._task = task
        self._workflow = workflow
        self._workers = workers
        self._kind = kind
        self._requests: dict[tuple[str, tuple[int, ...]], Request] = {}
        self._known: dict[tuple[str, tuple[int, ...], str], WorstCase] = {}

    def bounds(self, assignment: Mapping[str, Sequence[str]]) -> PlanBounds:
        """Bound every call, parents before children.

        Args:
            assignment: the workers of each subtask, in the order in which they are asked; an empty name is nobody.
        """
        longest: dict[str, int] = {}
        calls: dict[Call, WorstCase] = {}
        for subtask in self._workflow.order():
            lengths = tuple(longest[parent] for parent in subtask.depends_on)
            for worker in filter(None, assignment[subtask.id]):
                calls[subtask.id, worker] = self._worst_case(subtask, lengths, worker)
            outputs = (calls[subtask.id, worker].output_bytes for worker in assignment[subtask.id] if worker)
            longest[subtask.id] = max(outputs, default=0)
        return PlanBounds(calls)

    def _worst_case(self, subtask: Subtask, lengths: tuple[int, ...], worker: str) -> WorstCase:
        key = subtask.id, lengths, worker
        if key not in self._known:
            self._known[key] = self._workers.worst_case(worker, self._request(subtask, lengths))
        return self._known[key]

    def _request(self, subtask: Subtask, lengths: tuple[int, ...]) -> Request:
        key = subtask.id, lengths
        if key not in self._requests:
            inputs = {parent: "x" * length for parent, length in zip(subtask.depends_on, lengths, strict=True)}
            self._requests[key] = build_request(self._task, self._workflow, subtask, kind=self._kind, inputs=inputs)
        return self._requests[key]
