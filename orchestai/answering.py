"""One run: an instruction is planned under its contract, paid for, carried out, logged and answered."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from orchestai.admission import TooLateError
from orchestai.config import Config, Contract
from orchestai.errors import InfrastructureError, UserError
from orchestai.execution.contract.deadline import Clock, DeadlineError
from orchestai.execution.contract.ledger import Account, Reservation, pico, usd
from orchestai.execution.contract.receipt import Receipt
from orchestai.execution.contract.run_budget import RunBudget
from orchestai.execution.contract.trimming import Fitter, reserve_plan, reserve_planning
from orchestai.execution.events import AnswerReady, ExecutionEvent, PlanReady
from orchestai.execution.log import ExecutionLog, LogQueue
from orchestai.execution.record import ExecutionRecord
from orchestai.execution.result import INTERRUPTED, STOPPED, Execution
from orchestai.execution.running_workflow import Terms
from orchestai.execution.runtime import Runtime
from orchestai.planner.base import Plan
from orchestai.planner.baselines import WholePlanner
from orchestai.planner.serving import ContractedPlan, PlanContractor, PlanningQueue, QueuedTask, ServedPlanner
from orchestai.tasks.task import Task
from orchestai.workers.base import Usage
from orchestai.workers.circuit_breaker import CircuitBreaker
from orchestai.workflow import Workflow

Event: TypeAlias = PlanReady | ExecutionEvent | AnswerReady
logger = logging.getLogger(__name__)
_REPLAY = "orchestai run --replay"
SINGLE_WORKER = "the best single worker"
AS_GIVEN = "as given"
"""The planner of a workflow that was not planned for this run."""


class NobodyLeftError(InfrastructureError):
    """No worker that the contract allows is in order; nothing was spent.

    Attributes:
        after_s: when the first of them is tried again.
    """

    def __init__(self, names: Collection[str], after_s: float) -> None:
        super().__init__("server", f"out of order: {', '.join(names)}; come again in {after_s:.0f} s")
        self.after_s = after_s


@dataclass(frozen=True)
class Resilience:
    """When a planner is given up for the best single worker, and a worker is not asked any more.

    Attributes:
        planner_s: longest wait for a plan; never more than half of the time that there is.
        failures: in a row, after which a worker or the planner rests.
        rest_s: how long.
        slow_s: a worker that is cut off by a deadline has failed if the deadline was at least that far away; a shorter
            one says nothing.
    """

    planner_s: float = 10.0
    failures: int = 5
    rest_s: float = 10.0
    slow_s: float = 5.0


@dataclass(frozen=True)
class RunResult:
    """What an instruction gave.

    Attributes:
        answer: a text or a program; empty where there is none.
        program: whether it is a program.
        workflow: that was run.
        receipt: what it took, and whether the answer is whole.
        execution: with every answer of every worker.
    """

    answer: str
    program: bool
    workflow: Workflow
    receipt: Receipt
    execution: Execution


@dataclass(frozen=True)
class Order:
    """What is to be answered, and on which terms.

    Attributes:
        clock: began when the instruction came.
        account: pays.
        listen: is told at once what happens; it must not take long.
        pieces: whether it is told the answer piece by piece, too.
        settled: is told the receipt, however a run ends that was begun.
    """

    task: Task
    contract: Contract
    clock: Clock
    account: Account
    run_id: str
    listen: Callable[[Event], None]
    pieces: bool = False
    settled: Callable[[Receipt], None] = lambda receipt: None


@dataclass
class _PlanningBill:
    """What models were paid for a plan, also for one that was given up.

    Attributes:
        usage: of the plan that there was.
        unseen: in the unit of `pico`, of a plan that was not waited for or failed: the most that it can be.
    """

    usage: Usage | None = None
    unseen: int = 0

    @property
    def total(self) -> Usage | None:
        """None where nobody was paid."""
        if not self.unseen:
            return self.usage
        return (self.usage or Usage()).plus(Usage(cost_usd=usd(self.unseen), estimated=True))


class Answering:
    """Answers orders with the workers of one runtime.

    Args:
        log: gets a line per run; None keeps none.
        versions: of packages, for receipts.
        resilience: when planners and workers are given up; None: never.
        keep: gives what the log keeps; None: all of it.
    """

    def __init__(
        self,
        config: Config,
        runtime: Runtime,
        log: ExecutionLog | None,
        versions: Mapping[str, str],
        resilience: Resilience | None = None,
        keep: Callable[[ExecutionRecord], ExecutionRecord] | None = None,
    ) -> None:
        self._config = config
        self._runtime = runtime
        self._log = log
        self._lines = None if log is None else LogQueue(log)
        self._versions = versions
        self._resilience = resilience
        self._keep = keep
        self._planner_breaker: CircuitBreaker | None = None
        if resilience is not None:
            limits = resilience.failures, resilience.rest_s
            runtime.pool.breakers = {name: CircuitBreaker(*limits) for name in runtime.pool.names}
            self._planner_breaker = CircuitBreaker(*limits)

    async def close(self) -> None:
        """Flush the log."""
        if self._lines is not None:
            await self._lines.close()

    def alone(self, worker: str) -> PlanningQueue:
        """A planner that asks one worker for the whole of every instruction."""
        names = self._runtime.pool.names
        if worker not in names:
            raise UserError(f"no worker {worker!r}; the pool has {', '.join(names)}")
        return PlanningQueue(ServedPlanner(f"{worker} alone", WholePlanner(worker).plan, only=(worker,), at_once=True))

    @staticmethod
    def fixed(workflow: Workflow) -> PlanningQueue:
        """A planner that has one plan, whose workers are not exchanged."""
        workers = tuple(name for subtask in workflow.subtasks for name in subtask.workers)
        plan = Plan(workflow, raw_valid=True)
        planner = ServedPlanner(AS_GIVEN, lambda tasks: [plan for _ in tasks], only=workers, at_once=True)
        return PlanningQueue(planner)

    async def plan(self, order: Order, planning: PlanningQueue) -> PlanReady:
        """The workflow that would be run; raises as `answer` does."""
        async with await self._reserve_planning(order, planning) as reservation:
            plan, contracted, degraded = await self._plan_in_time(order, planning, reservation, _PlanningBill())
        return _planned(plan, contracted, planning, degraded)

    async def answer(self, order: Order, planning: PlanningQueue) -> RunResult:
        """Plan, reserve, run, log; raises as `Orchestrator.run` does."""
        task, contract, clock, names = order.task, order.contract, order.clock, self._runtime.pool.names
        begun = Receipt(
            run_id=order.run_id,
            status="failed",
            contract=contract,
            planner=planning.planner.name,
            versions={**self._versions, **planning.planner.versions},
        )
        bill = _PlanningBill()
        async with await self._reserve_planning(order, planning) as reservation:
            try:
                plan, contracted, degraded = await self._plan_in_time(order, planning, reservation, bill)
                planning_ms = clock.milliseconds()
                fitted = contracted.fitted
                await reserve_plan(reservation, fitted)
            except BaseException as error:
                interrupted = isinstance(error, asyncio.CancelledError)
                if interrupted or reservation.spent:
                    cut_off = begun.unplanned(reservation, bill.total, usd(bill.unseen), clock.milliseconds())
                    order.settled(cut_off)
                    reason = INTERRUPTED if interrupted else str(error) or type(error).__name__
                    await self._append(ExecutionRecord.from_unplanned(reason, task, cut_off, names))
                raise
            planned = _planned(plan, contracted, planning, degraded)
            order.listen(planned)
            budget = RunBudget(contract, reservation, fitted.bounds)
            terms = Terms(budget, clock.deadline, order.listen, order.pieces, True, contracted.decide)
            running = self._runtime.executor.begin(task, fitted.workflow, terms=terms)
            begun = begun.model_copy(
                update={
                    "planner": planned.planner,
                    "degraded": degraded,
                    "confidence": planned.confidence,
                    "forecast": planned.forecast,
                    "best_single": contracted.best_single,
                    "planning": bill.total,
                    "unsettled_usd": usd(bill.unseen),
                    "planning_ms": planning_ms,
                    "changes": planned.changes,
                    "replay": "" if self._log is None else f"{_REPLAY} {self._log.path}#{begun.run_id}",
                }
            )
            try:
                execution = await running.finish()
            except asyncio.CancelledError:
                budget.close()
                so_far = running.so_far()
                cut_off = begun.ended(so_far, budget, clock.milliseconds())
                order.settled(cut_off)
                await self._append(ExecutionRecord.from_run(so_far, task, cut_off, names))
                raise
            finally:
                budget.close()
        if contracted.forecaster is not None:
            begun = begun.model_copy(update={"success": contracted.forecaster.afterwards(execution)})
        resilience, limit = self._resilience, contract.deadline_s
        if resilience is not None and execution.partial and limit is not None and limit >= resilience.slow_s:
            for attempt in (attempt for result in execution.results for attempt in result.attempts):
                if attempt.error == STOPPED and attempt.worker in self._runtime.pool.breakers:
                    self._runtime.pool.breakers[attempt.worker].failed()
        receipt = begun.ended(execution, budget, clock.milliseconds())
        order.settled(receipt)
        await self._append(ExecutionRecord.from_run(execution, task, receipt, names))
        order.listen(AnswerReady(answer=execution.answer, receipt=receipt))
        return RunResult(execution.answer, task.wants_program, execution.workflow, receipt, execution)

    async def _plan_in_time(
        self, order: Order, planning: PlanningQueue, reservation: Reservation, bill: _PlanningBill
    ) -> tuple[Plan, ContractedPlan, str]:
        """The plan, as it is contracted, and why it is not the planner's, if it is not."""
        pool, planner, contract = self._runtime.pool, planning.planner, order.contract
        allowed = [name for name in planner.only or pool.names if not contract.allow or name in contract.allow]
        if out := {name for name, breaker in pool.breakers.items() if breaker.is_open}:
            left = tuple(name for name in allowed if name not in out)
            if not left:
                raise NobodyLeftError(allowed, min((pool.breakers[name].seconds_left for name in allowed), default=1.0))
            contract = contract.model_copy(update={"allow": left})
        degraded = ""
        try:
            plan = await self._plan(order, planning, reservation, bill)
        except Exception as error:
            if self._resilience is None or planner.only:
                raise
            degraded = f"{planner.name}: {str(error) or type(error).__name__}"
            logger.warning("%s: the best single worker is asked instead, since %s", order.run_id, degraded)
            # The strongest as the cascade or else the prices say, the weaker ones after it
            strength = {name: place for place, name in enumerate(self._config.workers.cascade)}
            usable = [card for card in pool.cards if not contract.allow or card.name in contract.allow]
            models = [card for card in usable if card.kind == "model"] or usable
            ranked = sorted(models, key=lambda card: (strength.get(card.name, -1), card.price_usd), reverse=True)
            first, *others = [card.name for card in ranked]
            plan = WholePlanner(first, others).plan([order.task])[0]
            contract = contract.model_copy(update={"prefer": None})
        fitter = Fitter(pool.names, pool, self._config.execution.assembler, self._config.workers.cascade)
        contractor = PlanContractor(fitter, planner.forecaster, 1 + self._config.planner.max_fallbacks)
        terms = contract.less(reservation.spent_usd)
        if contractor.pool is None:
            return plan, contractor.fit(order.task, plan, terms), degraded
        return plan, await asyncio.to_thread(contractor.fit, order.task, plan, terms), degraded

    async def _plan(self, order: Order, planning: PlanningQueue, reservation: Reservation, bill: _PlanningBill) -> Plan:
        """The planner's own plan, unless it takes too long, or has failed again and again."""
        breaker, resilience, clock = self._planner_breaker, self._resilience, order.clock
        if resilience is None or breaker is None or planning.planner.only:
            return await self._plan_by(order, planning, reservation, bill, clock.deadline)
        breaker.enter("the planner")
        ended: BaseException | None = None
        try:
            left, longest = clock.seconds_left(), resilience.planner_s
            deadline = clock.now() + (longest if left is None else min(longest, left / 2))
            plan = await self._plan_by(order, planning, reservation, bill, deadline)
            if plan.workflow is None:
                raise UserError(f"no plan: {plan.error}")
            return plan
        except BaseException as error:
            ended = error
            raise
        finally:
            limit = order.contract.deadline_s
            hurried = limit is not None and limit < resilience.slow_s
            breaker.left() if hurried and ended is not None else breaker.heard(ended)

    async def _plan_by(
        self,
        order: Order,
        planning: PlanningQueue,
        reservation: Reservation,
        bill: _PlanningBill,
        deadline: float | None,
    ) -> Plan:
        queued = QueuedTask(order.task)
        await reservation.commit(reservation.amount)
        try:
            plan = await planning.plan(queued, deadline)
            if plan.fault is not None:
                raise InfrastructureError(plan.fault.kind, f"planner: {plan.fault.reason}")
        except BaseException as error:
            if queued.asked:  # and nobody has seen the bill
                reservation.spend(reservation.amount)
                bill.unseen = reservation.amount
            if isinstance(error, TooLateError) and deadline != order.clock.deadline:
                raise InfrastructureError("timeout", "there was no plan in time") from None
            if isinstance(error, TooLateError):
                raise DeadlineError(
                    f"deadline_s={order.contract.deadline_s:g}: it passed before there was a plan; allow more time"
                ) from None
            raise
        if plan.usage is not None:
            paid = min(pico(plan.usage.cost_usd), reservation.amount)
            reservation.spend(paid)
            bill.usage = plan.usage.model_copy(update={"cost_usd": usd(paid)})
        return plan

    async def _reserve_planning(self, order: Order, planning: PlanningQueue) -> Reservation:
        planner = planning.planner
        most_usd = planner.most_usd(order.task)
        return await reserve_planning(order.account, order.contract, planner.name, most_usd, order.run_id)

    async def _append(self, record: ExecutionRecord) -> None:
        if self._lines is None:
            return
        kept = record if self._keep is None else self._keep(record)
        try:
            await self._lines.append(kept)
        except UserError as error:
            logger.error("this run is in no log, though it was paid for: %s", error)


def _planned(plan: Plan, contracted: ContractedPlan, planning: PlanningQueue, degraded: str) -> PlanReady:
    fitted = contracted.fitted
    return PlanReady(
        workflow=fitted.workflow,
        planner=SINGLE_WORKER if degraded else plan.planned_by or planning.planner.name,
        confidence=plan.confidence,
        forecast=contracted.forecast,
        reserved_usd=fitted.bounds.cost_usd,
        changes=fitted.changes,
        degraded=degraded,
    )
