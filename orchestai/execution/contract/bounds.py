"""What a workflow may cost at most, known before anybody is asked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, NamedTuple, Protocol, TypeAlias

from orchestai.execution.contract.ledger import pico, usd
from orchestai.execution.request import build_request
from orchestai.tasks.task import Task
from orchestai.workers.base import Request, WorstCase
from orchestai.workflow import Subtask, Workflow

Call: TypeAlias = tuple[str, str]
"""Id of a subtask, and the worker asked for it."""


class Bounded(Protocol):
    """Whoever knows what a request may cost at most (`orchestai.workers.WorkerPool`)."""

    def worst_case(self, name: str, request: Request) -> WorstCase: ...


class StepBounds(NamedTuple):
    """The worst case of each call that one subtask may make.

    Attributes:
        workers: in the order in which they are asked; an empty name is nobody.
        calls: by worker.
        cost: of all of them, in the ledger's unit.
        longest: the most bytes that it may hand on.
    """

    workers: tuple[str, ...]
    calls: Mapping[str, WorstCase]
    cost: int
    requests: int
    longest: int


class PlanBounds(NamedTuple):
    """The worst case of each call that a workflow may make: of every worker, as if all before it failed.

    The requests of later steps are bounded with long answers of the earlier ones; before a worker is asked, the bound
    is taken again with the answers that there are.

    Attributes:
        steps: by subtask.
        cost: in the ledger's unit.
    """

    steps: Mapping[str, StepBounds]
    cost: int
    requests: int

    @property
    def calls(self) -> dict[Call, WorstCase]:
        return {(step, name): worst for step, bounds in self.steps.items() for name, worst in bounds.calls.items()}

    @property
    def cost_usd(self) -> float:
        return usd(self.cost)


class Bounder:
    """Bounds one workflow under different assignments of workers; what it has bounded once it remembers."""

    def __init__(self, task: Task, workflow: Workflow, workers: Bounded, kind: Literal["dataflow", "sink"]) -> None:
        self._task = task
        self._workflow = workflow
        self._order = workflow.order()
        self._place = {subtask.id: place for place, subtask in enumerate(self._order)}
        self._workers = workers
        self._kind = kind
        self._requests: dict[tuple[str, tuple[int, ...]], Request] = {}
        self._worst: dict[tuple[str, tuple[int, ...], str], WorstCase] = {}

    def bounds(self, assignment: Mapping[str, tuple[str, ...]]) -> PlanBounds:
        """Of the workflow when its steps have these workers, in the order in which they are asked."""
        steps: dict[str, StepBounds] = {}
        for subtask in self._order:
            steps[subtask.id] = self._step(subtask, steps, assignment[subtask.id])
        cost = sum(step.cost for step in steps.values())
        return PlanBounds(steps, cost, sum(step.requests for step in steps.values()))

    def changed(self, plan: PlanBounds, step: str, workers: tuple[str, ...]) -> PlanBounds:
        """Of a plan in which one step has other workers; the steps that read it are bounded again."""
        steps = dict(plan.steps)
        cost, requests = plan.cost, plan.requests
        others: set[str] = set()
        for subtask in self._order[self._place[step] :]:
            if subtask.id != step and others.isdisjoint(subtask.depends_on):
                continue
            former = steps[subtask.id]
            new = self._step(subtask, steps, workers if subtask.id == step else former.workers)
            steps[subtask.id] = new
            cost += new.cost - former.cost
            requests += new.requests - former.requests
            if new.longest != former.longest:
                others.add(subtask.id)
            elif not others:
                break
        return PlanBounds(steps, cost, requests)

    def call(self, plan: PlanBounds, step: str, worker: str) -> WorstCase:
        """What asking a worker for a step of a plan may take."""
        subtask = self._order[self._place[step]]
        return self._worst_case(subtask, _lengths(subtask, plan.steps), worker)

    def _step(self, subtask: Subtask, steps: Mapping[str, StepBounds], workers: tuple[str, ...]) -> StepBounds:
        lengths = _lengths(subtask, steps)
        calls = {worker: self._worst_case(subtask, lengths, worker) for worker in workers if worker}
        cost = requests = longest = 0
        for worst in calls.values():
            cost += pico(worst.cost_usd)
            requests += worst.calls
            longest = max(longest, worst.output_bytes)
        return StepBounds(workers, calls, cost, requests, longest)

    def _worst_case(self, subtask: Subtask, lengths: tuple[int, ...], worker: str) -> WorstCase:
        key = subtask.id, lengths, worker
        worst = self._worst.get(key)
        if worst is None:
            worst = self._worst[key] = self._workers.worst_case(worker, self._request(subtask, lengths))
        return worst

    def _request(self, subtask: Subtask, lengths: tuple[int, ...]) -> Request:
        key = subtask.id, lengths
        if key not in self._requests:
            inputs = {parent: "x" * length for parent, length in zip(subtask.depends_on, lengths, strict=True)}
            self._requests[key] = build_request(self._task, self._workflow, subtask, kind=self._kind, inputs=inputs)
        return self._requests[key]


def _lengths(subtask: Subtask, steps: Mapping[str, StepBounds]) -> tuple[int, ...]:
    return tuple([steps[parent].longest for parent in subtask.depends_on])
