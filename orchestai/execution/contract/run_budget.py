"""What one run may still spend: every call is admitted before it is made, and settled after."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from typing import Literal, NamedTuple, Protocol, TypeAlias

from orchestai.config.running import Contract
from orchestai.execution.contract.ledger import InsufficientFundsError, Reservation, pico, usd, whole
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


class NotAdmittedError(Exception):
    """A worker may not be asked; the message says why."""


class RunBudget:
    """Holds one run to its contract.

    What a run has spent and may yet spend in calls that are on their way never exceeds its reservation, nor this the
    contract. A call that turns out to be longer than planned for takes what other calls have left over, and then more
    of the ledger, where the contract has room.

    Args:
        bounds: of the calls planned; what they come to is reserved already.

    Attributes:
        calls: requests that were sent, or may have been.
        disputed_usd: what workers billed beyond what they may; it is not counted as spent.
        unsettled_usd: of what counts as spent, the bills that nobody saw, at their most.
    """

    def __init__(self, contract: Contract, reservation: Reservation, bounds: PlanBounds | None = None) -> None:
        self.contract = contract
        self.reservation = reservation
        self.calls = 0
        self.disputed_usd = 0.0
        self.unsettled_usd = 0.0
        planned = bounds.calls if bounds is not None else {}
        self._to_come = {call: pico(worst.cost_usd) for call, worst in planned.items()}
        self._on_the_way: dict[Call, int] = {}
        self._overbilled: set[str] = set()
        self._admitting = asyncio.Lock()

    async def admit(self, call: Call, worst: WorstCase) -> None:
        """Let a call be made, which then counts as spent until its bill is seen; `settle` or `abandon` must follow.

        Args:
            worst: its worst case, with the inputs that there are.

        Raises:
            NotAdmittedError: the contract has no room for it, or the worker has billed more than it may in this run.
        """
        worker = call[1]
        if self.contract.allow and worker not in self.contract.allow:
            raise NotAdmittedError(f"not asked: the contract does not allow {worker!r}")
        if worker in self._overbilled:
            raise NotAdmittedError(f"not asked: {worker!r} has billed more than it may in this run")
        most = self.contract.max_calls
        if most is not None and self.calls + worst.calls > most:
            raise NotAdmittedError(f"not asked: up to {worst.calls} more requests would exceed max_calls={most}")
        amount = pico(worst.cost_usd)
        async with self._admitting:
            await self._make_room(call, amount)
            try:
                await self.reservation.commit(self._committed + amount)
            except InsufficientFundsError as error:
                raise NotAdmittedError(f"not asked: {error}") from None
            self._to_come.pop(call, None)
            self._on_the_way[call] = amount
            self.calls += worst.calls

    def settle(self, call: Call, cost_usd: float) -> str:
        """Count what a call has cost.

        Returns:
            What is wrong with the bill; empty if nothing is, or the run is closed. What is beyond the worst case is not
            counted as spent, and the worker is not asked again in this run.
        """
        if call not in self._on_the_way:
            return ""
        most = self._on_the_way.pop(call)
        if not 0 <= cost_usd < math.inf:
            self.reservation.spend(most)
            self._overbilled.add(call[1])
            return f"{call[1]!r} billed {cost_usd} USD, which is no price; it counts as {usd(most):.9g}"
        billed = pico(cost_usd)
        self.reservation.spend(min(billed, most))
        if billed <= most:
            return ""
        self.disputed_usd += usd(billed - most)
        self._overbilled.add(call[1])
        return f"{call[1]!r} billed {cost_usd:.9g} USD and may bill {usd(most):.9g} at most for this request"

    def abandon(self, call: Call) -> None:
        """Count a call whose bill nobody saw, since it failed or was cut off, with the most that it can be."""
        most = self._on_the_way.pop(call, 0)
        self.reservation.spend(most)
        self.unsettled_usd += usd(most)

    def close(self) -> None:
        """Abandon what is still on its way; whatever it brings later is of no account."""
        for call in list(self._on_the_way):
            self.abandon(call)

    def forgo(self, subtask: str) -> None:
        """Give up the calls of a subtask that are not needed any more."""
        for call in [call for call in self._to_come if call[0] == subtask]:
            del self._to_come[call]

    @property
    def _committed(self) -> int:
        return self.reservation.spent + sum(self._on_the_way.values())

    async def _make_room(self, call: Call, amount: int) -> None:
        """Extend the reservation where what is spent, on its way and to come does not leave enough for this call."""
        others = sum(other for planned, other in self._to_come.items() if planned != call)
        needed = self._committed + others + amount
        if needed <= self.reservation.amount:
            return
        limit = self.contract.max_cost_usd
        if limit is not None and needed > whole(limit):
            raise NotAdmittedError(
                f"not asked: the request may cost {usd(amount):.9g} USD, and max_cost_usd={limit:g} has no room for it"
            )
        try:
            await self.reservation.extend(needed - self.reservation.amount)
        except InsufficientFundsError as error:
            raise NotAdmittedError(f"not asked: the request may cost {usd(amount):.9g} USD, and {error}") from None
