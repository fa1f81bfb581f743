"""What a workflow may cost at most, known before anybody is asked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, Protocol, TypeAlias

from orchestai.execution.ledger import pico, usd
from orchestai.execution.request import build_request
from orchestai.tasks.task import Task
from orchestai.workers.base import Request, WorstCase
from orchestai.workflow import Workflow

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


def plan_bounds(task: Task, workflow: Workflow, workers: Bounded, kind: Literal["dataflow", "sink"]) -> PlanBounds:
    """Bound every call of a workflow, parents before children."""
    longest: dict[str, str] = {}
    calls: dict[Call, WorstCase] = {}
    for subtask in workflow.order():
        inputs = {parent: longest[parent] for parent in subtask.depends_on}
        request = build_request(task, workflow, subtask, kind=kind, inputs=inputs)
        for worker in filter(None, subtask.workers):
            calls[subtask.id, worker] = workers.worst_case(worker, request)
        lengths = [calls[subtask.id, worker].output_bytes for worker in subtask.workers if worker]
        longest[subtask.id] = "x" * max(lengths, default=0)
    return PlanBounds(calls)
