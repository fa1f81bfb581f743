"""Fits a workflow to a contract: without fallbacks first, then with cheaper workers, else not at all."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import Literal, NamedTuple

from orchestai.config import Contract
from orchestai.errors import UserError
from orchestai.execution.contract.ledger import Account, InsufficientFundsError, Reservation, pico, usd, whole
from orchestai.execution.contract.run_budget import Bounded, Bounder, PlanBounds
from orchestai.tasks.task import Task
from orchestai.workers.base import WorstCase
from orchestai.workflow import Workflow


class Measure(NamedTuple):
    """What a contract limits: of a call, and of a plan."""

    of_call: Callable[[WorstCase], int]
    of_plan: Callable[[PlanBounds], int]


_COST = Measure(lambda worst: pico(worst.cost_usd), attrgetter("cost"))
_REQUESTS = Measure(attrgetter("calls"), attrgetter("requests"))


class ContractError(UserError):
    """A contract cannot be kept; nothing was asked of workers."""


class InfeasibleContractError(ContractError):
    """No choice of workers for this plan keeps the contract.

    Attributes:
        feasible: the cheapest contract that this plan can keep.
    """

    def __init__(self, message: str, feasible: Contract) -> None:
        super().__init__(message)
        self.feasible = feasible


@dataclass(frozen=True)
class FittedPlan:
    """A workflow that keeps its contract.

    Attributes:
        bounds: of its calls.
        changes: what was changed of the plan, in words.
    """

    workflow: Workflow
    bounds: PlanBounds
    changes: tuple[str, ...] = ()


_NOBODY = ("",)


class Fitter:
    """Fits workflows to contracts.

    Args:
        workers: names of the pool, in its order.
        pool: knows what they may cost.
        kind: the assembler, which decides what workers are asked.
        substitutes: those that may take any step, of which a tool for numbers is none; empty: all.
    """

    def __init__(
        self,
        workers: Sequence[str],
        pool: Bounded,
        kind: Literal["dataflow", "sink"],
        substitutes: Sequence[str] = (),
    ) -> None:
        self._workers = tuple(workers)
        self._pool = pool
        self._kind = kind
        self._substitutes = tuple(substitutes) or self._workers

    def fit(self, task: Task, workflow: Workflow, contract: Contract) -> FittedPlan:
        """The workflow with as few changes as the contract asks for.

        Workers that it does not allow are left out. Then the fallback goes that takes most, again and again; then the
        step that takes most gets the dearest worker that takes less, one of its own fallbacks if there is one.

        Raises:
            InfeasibleContractError: with the cheapest allowed workers, the plan still does not keep it.
            UserError: the contract allows a worker that the pool does not have.
        """
        if unknown := [name for name in contract.allow if name not in self._workers]:
            raise UserError(f"allow: no worker {unknown[0]!r}; the pool has {', '.join(self._workers)}")
        bounder = Bounder(task, workflow, self._pool, self._kind)
        trimming = _Trimming(bounder, workflow, contract, self.allowed(contract), self.substitutes(contract))
        trimming.leave_out_others()
        while (measure := trimming.broken()) is not None:
            if not trimming.drop_fallback(measure) and not trimming.change_worker(measure):
                trimming.take_cheapest()
                break
        return FittedPlan(trimming.fitted(), trimming.bounds, tuple(trimming.changes))

    def allowed(self, contract: Contract) -> list[str]:
        return [name for name in self._workers if not contract.allow or name in contract.allow]

    def substitutes(self, contract: Contract) -> list[str]:
        """Whom the contract lets take a step that was another's."""
        allowed = self.allowed(contract)
        return [name for name in allowed if name in self._substitutes] or allowed


class _Trimming:
    """The workers of a workflow on their way to fit."""

    def __init__(
        self,
        bounder: Bounder,
        workflow: Workflow,
        contract: Contract,
        allowed: Sequence[str],
        substitutes: Sequence[str],
    ) -> None:
        self.bounder = bounder
        self.workflow = workflow
        self.contract = contract
        self.allowed = allowed
        self.own = {subtask.id: subtask.workers for subtask in workflow.subtasks}
        kept = {step: tuple(name for name in names if name in allowed) for step, names in self.own.items()}
        self.bounds = bounder.bounds({step: names or _NOBODY for step, names in kept.items()})
        self.options = {
            step: [name for name in allowed if name in substitutes or name in own] for step, own in self.own.items()
        }
        self.changes: list[str] = []

    def workers(self, step: str) -> tuple[str, ...]:
        return self.bounds.steps[step].workers

    def fitted(self) -> Workflow:
        """The workflow with the workers that it has now."""
        if not self.changes:
            return self.workflow
        now = {step: bounds.workers for step, bounds in self.bounds.steps.items()}
        changes = {step: {"worker": names[0], "fallback": names[1:]} for step, names in now.items()}
        return self.workflow.replace(changes)

    def broken(self) -> Measure | None:
        """What the workflow takes too much of."""
        return _broken(self.bounds, self.contract)

    def leave_out_others(self) -> None:
        """Give no step a worker that is not allowed; where none is left, the cheapest."""
        for subtask in self.workflow.order():
            own, kept = self.own[subtask.id], self.workers(subtask.id)
            if kept == own:
                continue
            if kept == _NOBODY:
                kept = (self._cheapest(subtask.id),)
            self._change(subtask.id, kept, f"{', '.join(kept)} instead of {', '.join(filter(None, own)) or 'nobody'}")

    def drop_fallback(self, measure: Measure) -> bool:
        """Leave out the fallback that takes most; whether there was one."""
        steps = self.bounds.steps
        fallbacks = [(step, name) for step in self.own for name in steps[step].workers[1:]]
        if not fallbacks:
            return False
        step, name = max(fallbacks, key=lambda call: measure.of_call(steps[call[0]].calls[call[1]]))
        first, *others = steps[step].workers
        kept = (first, *(other for other in others if other != name))
        self._change(step, kept, f"without the fallback {name}")
        return True

    def change_worker(self, measure: Measure) -> bool:
        """Give the step that takes most another worker that takes less; whether there was one."""
        now = {step: next(iter(self.bounds.steps[step].calls.items())) for step in self.own}
        for step in sorted(now, key=lambda step: -measure.of_call(now[step][1])):
            options = [
                (name in self.own[step], measure.of_plan(bounds), name)
                for name in self.options[step]
                if self._is_better(bounds := self.bounder.changed(self.bounds, step, (name,)), measure)
            ]
            if options:
                *_, name = max(options)
                self._change(step, (name,), f"{name} instead of {now[step][0]}")
                return True
        return False

    def take_cheapest(self) -> None:
        """Give every step the worker that costs least.

        Raises:
            InfeasibleContractError: that is not enough.
        """
        for subtask in self.workflow.order():
            name, former = self._cheapest(subtask.id), self.workers(subtask.id)[0]
            if name != former:
                self._change(subtask.id, (name,), f"{name} instead of {former}")
        if self.broken() is None:
            return
        limits: dict[str, float] = {}
        if self.contract.max_cost_usd is not None:
            limits["max_cost_usd"] = max(self.contract.max_cost_usd, usd(self.bounds.cost))
        if self.contract.max_calls is not None:
            limits["max_calls"] = max(self.contract.max_calls, self.bounds.requests)
        given = ", ".join(f"{key}={getattr(self.contract, key):.12g}" for key in limits)
        steps = "1 step" if len(self.workflow) == 1 else f"{len(self.workflow)} steps"
        raise InfeasibleContractError(
            f"{given}: this plan has {steps}, and with the cheapest workers that are allowed it may need "
            f"{' and '.join(f'{key}={limit:.12g}' for key, limit in limits.items())}; allow as much, or more workers",
            self.contract.model_copy(update=limits),
        )

    def _cheapest(self, step: str) -> str:
        names = self.options[step] or self.allowed
        return min(names, key=lambda name: self.bounder.call(self.bounds, step, name).cost_usd)

    def _is_better(self, bounds: PlanBounds, measure: Measure) -> bool:
        """Whether a plan takes less by this measure, and not too much by another."""
        less = measure.of_plan(bounds) < measure.of_plan(self.bounds)
        return less and _broken(bounds, self.contract) in (None, measure)

    def _change(self, step: str, workers: tuple[str, ...], note: str) -> None:
        self.bounds = self.bounder.changed(self.bounds, step, workers)
        self.changes.append(f"step {step}: {note}")


def _broken(bounds: PlanBounds, contract: Contract) -> Measure | None:
    if contract.max_cost_usd is not None and bounds.cost > whole(contract.max_cost_usd):
        return _COST
    if contract.max_calls is not None and bounds.requests > contract.max_calls:
        return _REQUESTS
    return None


class OutOfFundsError(ContractError):
    """Whoever pays has less left than this run may cost."""


async def reserve_planning(
    account: Account, contract: Contract, planner: str, most_usd: float, run_id: str = ""
) -> Reservation:
    """Set aside what making a plan may cost.

    Raises:
        ContractError: the contract has less.
        OutOfFundsError: the account has.
    """
    most = pico(most_usd)
    if contract.max_cost_usd is not None and most > whole(contract.max_cost_usd):
        raise ContractError(
            f"max_cost_usd={contract.max_cost_usd:g}: the planner {planner} alone may cost {usd(most):.9g} USD; allow "
            "more, or take a checkpoint, which plans for nothing"
        )
    try:
        return await account.reserve(most, run_id)
    except InsufficientFundsError as error:
        raise OutOfFundsError(f"the ledger: planning may cost {usd(most):.9g} USD, and {error}") from None


async def reserve_plan(reservation: Reservation, fitted: FittedPlan) -> None:
    """Set the worst case of a plan aside, on top of what making it has cost.

    Raises:
        OutOfFundsError: the account has less.
    """
    more = reservation.spent + fitted.bounds.cost - reservation.amount
    try:
        await reservation.extend(max(more, 0))
    except InsufficientFundsError as error:
        raise OutOfFundsError(
            f"the ledger: this plan may cost {usd(fitted.bounds.cost):.9g} USD, and {error}; try again when other "
            "runs have ended, or allow cheaper workers"
        ) from None
