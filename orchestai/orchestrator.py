"""The product in one object: plans an instruction, runs the plan under a contract, and shows its receipt."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, TypeAlias, TypeVar

from orchestai import __version__
from orchestai.admission import Admission, TooLateError
from orchestai.background_loop import BackgroundLoop
from orchestai.config import Config, Contract, load_config
from orchestai.errors import InfrastructureError, UserError
from orchestai.execution.contract.clock import Clock
from orchestai.execution.contract.deadline import DeadlineError, require_whole
from orchestai.execution.contract.ledger import Account, Ledger, Reservation, pico
from orchestai.execution.contract.receipt import Receipt
from orchestai.execution.contract.reserving import reserve_plan, reserve_planning
from orchestai.execution.contract.run_budget import RunBudget
from orchestai.execution.contract.trimming import Fitter
from orchestai.execution.events import AnswerReady, ExecutionEvent, PlanReady
from orchestai.execution.log import ExecutionLog
from orchestai.execution.record import ExecutionRecord
from orchestai.execution.result import Execution
from orchestai.execution.running_workflow import Terms
from orchestai.execution.runtime import Runtime, open_runtime
from orchestai.planner.base import Plan
from orchestai.planner.contracted_plan import ContractedPlan, PlanContractor
from orchestai.planner.planning_queue import PlanningQueue, QueuedTask
from orchestai.planner.serving import import_planner, open_planner
from orchestai.storage import artifacts
from orchestai.tasks.asked_task import AnswerKind, asked_task
from orchestai.tasks.task import Task
from orchestai.workflow import Workflow

Event: TypeAlias = PlanReady | ExecutionEvent | AnswerReady
T = TypeVar("T")
logger = logging.getLogger(__name__)
_REPLAY = "orchestai run --replay"


def _ignore(event: Event) -> None:
    """Listen to nothing."""


def new_run_id() -> str:
    """A name for a run that no other has."""
    return f"run-{uuid.uuid4().hex[:12]}"


@dataclass(frozen=True)
class RunResult:
    """What an instruction gave.

    Attributes:
        answer: a text or a program; empty where there is none.
        workflow: that was run.
        receipt: what it took, and whether the answer is whole.
        execution: with every answer of every worker.
    """

    answer: str
    workflow: Workflow
    receipt: Receipt
    execution: Execution


class Orchestrator:
    """Answers instructions with a planner and a pool of workers.

    `async with Orchestrator.open(checkpoint, config) as o:` for programs with an event loop; many runs may be on their
    way at a time. Elsewhere, and in notebooks, `run_sync` opens what it needs, and `close` or `with` closes it.
    """

    def __init__(
        self, config: Config, checkpoint: str | None, *, log: Path | None = None, ledger: Ledger | None = None
    ) -> None:
        self.config = config
        self.checkpoint = checkpoint
        self.ledger = ledger or Ledger()
        self._log = ExecutionLog(log) if log is not None else None
        self._stack = AsyncExitStack()
        self._background: BackgroundLoop | None = None
        self._runtime: Runtime | None = None
        self._planning: PlanningQueue
        self._in_work: Admission
        self._versions: dict[str, str]

    @classmethod
    def open(
        cls,
        checkpoint: Path | str | None = None,
        config: Config | Path | str | None = None,
        *,
        overrides: Sequence[str] = (),
        log: Path | str | None = "execution_logs",
        ledger: Ledger | None = None,
    ) -> Orchestrator:
        """An orchestrator that is opened by `async with`, `with` or its first `run_sync`.

        Args:
            checkpoint: of phase 1 or 2, or the name of a planner as `collect` takes it. None: the configured cascade,
                or the dearest worker alone, is asked for the whole of every instruction.
            config: a configuration or its file; None is `config.yaml` here, or else the one that is installed.
            overrides: such as `execution.concurrency=8`.
            log: folder of the execution log, to which every run is appended; None keeps no log.
            ledger: of what all its runs may cost together; None is no limit.

        Raises:
            UserError: the configuration cannot be read.
        """
        if not isinstance(config, Config):
            config = load_config(Path(config or "config.yaml"), list(overrides))
        elif overrides:
            raise UserError("overrides are for a configuration that is read from a file; change the object instead")
        named = None if checkpoint is None else str(checkpoint)
        return cls(config, named, log=None if log is None else Path(log), ledger=ledger)

    @property
    def planner(self) -> str:
        """Who plans, in words."""
        self._require_open()
        return self._planning.planner.name

    async def plan(
        self, instruction: str, contract: Contract | None = None, *, answer: AnswerKind | None = None
    ) -> PlanReady:
        """The workflow that would be run, with its worst case; only the planner itself is paid, if anybody is.

        Raises:
            ContractError: no choice of workers keeps the contract.
            UserError: there is no plan.
            InfrastructureError: the planner's model cannot be had.
        """
        contract = contract or self.config.contract
        task = asked_task(instruction, answer, self.config.tasks)
        async with await self._reserve_planning(task, contract, self.ledger) as reservation:
            plan, contracted = await self._plan_in_time(task, contract, Clock(contract.deadline_s), reservation)
        return self._planned(plan, contracted)

    async def run(
        self,
        instruction: str,
        contract: Contract | None = None,
        *,
        answer: AnswerKind | None = None,
        ledger: Account | None = None,
        run_id: str | None = None,
        listen: Callable[[Event], None] = _ignore,
    ) -> RunResult:
        """Plan, reserve the worst case, run the plan and append it to the log.

        Args:
            contract: None is that of the configuration.
            answer: whether a program or a text is wanted; None is what the tasks of the configured suite want.
            ledger: who pays for this run; None is the orchestrator's own.
            run_id: of the receipt and the line of the log, `run-` and twelve hexadecimal digits; None draws one.
            listen: is told at once what happens; it must not take long.

        Raises:
            ContractError: no choice of workers keeps the contract, or the ledger has less than the plan may need.
            DeadlineError: there is no answer in time, or only a part where `on_deadline` is `error`.
            UserError: there is no plan.
            InfrastructureError: the planner's model cannot be had.
        """
        self._require_open()
        contract = contract or self.config.contract
        if not isinstance(contract, Contract):
            raise TypeError(f"the contract is a Contract, not {type(contract).__name__}")
        clock = Clock(contract.deadline_s)
        task = asked_task(instruction, answer, self.config.tasks)
        try:
            await self._in_work.enter(clock.deadline)
        except TooLateError:
            raise DeadlineError(
                f"deadline_s={contract.deadline_s:g}: it passed while {self.config.execution.concurrency} other runs "
                "were in work; allow more time, or raise execution.concurrency"
            ) from None
        try:
            return await self._run(task, contract, clock, ledger or self.ledger, run_id or new_run_id(), listen)
        finally:
            self._in_work.leave()

    async def stream(
        self,
        instruction: str,
        contract: Contract | None = None,
        *,
        answer: AnswerKind | None = None,
        ledger: Account | None = None,
        run_id: str | None = None,
    ) -> AsyncIterator[Event]:
        """`run`, giving what happens as it happens; the last event is `AnswerReady`. Leaving it cancels the run."""
        events: asyncio.Queue[Event | None] = asyncio.Queue()
        running = asyncio.ensure_future(
            self.run(instruction, contract, answer=answer, ledger=ledger, run_id=run_id, listen=events.put_nowait)
        )
        running.add_done_callback(lambda done: events.put_nowait(None))
        try:
            while (event := await events.get()) is not None:
                yield event
            await running
        finally:
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)

    def run_sync(
        self, instruction: str, contract: Contract | None = None, *, answer: AnswerKind | None = None
    ) -> RunResult:
        """`run` for programs without an event loop and for notebooks, whose own loop it leaves alone."""
        return self._in_background(self.run(instruction, contract, answer=answer))

    async def __aenter__(self) -> Orchestrator:
        if self._runtime is not None:
            raise RuntimeError("this orchestrator is open already; open another with Orchestrator.open")
        if self._log is not None:
            self._log.check()
        config = self.config
        importing = asyncio.get_running_loop().run_in_executor(None, import_planner, self.checkpoint)
        try:
            runtime = await self._stack.enter_async_context(
                open_runtime(config.workers, config.execution, config.sandbox, imports=importing)
            )
            planner = await open_planner(self.checkpoint, config.planner, config.workers, runtime.pool)
        except BaseException:
            await self._stack.aclose()
            raise
        self._runtime = runtime
        self._planning = PlanningQueue(planner)
        self._in_work = Admission(config.execution.concurrency)
        self._versions = {"orchestai": __version__, **artifacts.versions(), **planner.versions}
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._runtime = None
        await self._stack.aclose()

    def __enter__(self) -> Orchestrator:
        self._open_in_background()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close what `run_sync` or `with` has opened."""
        if self._background is not None:
            background, self._background = self._background, None
            try:
                background.run(self.__aexit__(None, None, None))
            finally:
                background.close()

    def _open_in_background(self) -> BackgroundLoop:
        if self._background is None:
            background = BackgroundLoop()
            try:
                background.run(self.__aenter__())
            except BaseException:
                background.close()
                raise
            self._background = background
        return self._background

    def _in_background(self, work: Coroutine[Any, Any, T]) -> T:
        try:
            background = self._open_in_background()
        except BaseException:
            work.close()
            raise
        return background.run(work)

    def _require_open(self) -> Runtime:
        if self._runtime is None:
            raise RuntimeError("this orchestrator is not open; use `async with`, `with` or `run_sync`")
        return self._runtime

    @property
    def _contractor(self) -> PlanContractor:
        pool = self._require_open().pool
        fitter = Fitter(pool.names, pool, self.config.execution.assembler, self.config.workers.cascade)
        return PlanContractor(fitter, self._planning.planner.outlook, 1 + self.config.planner.max_fallbacks)

    def _planned(self, plan: Plan, contracted: ContractedPlan) -> PlanReady:
        fitted = contracted.fitted
        return PlanReady(
            workflow=fitted.workflow,
            planner=plan.planned_by or self._planning.planner.name,
            confidence=plan.confidence,
            forecast=contracted.forecast,
            reserved_usd=fitted.bounds.cost_usd,
            changes=fitted.changes,
        )

    async def _run(
        self,
        task: Task,
        contract: Contract,
        clock: Clock,
        ledger: Account,
        run_id: str,
        listen: Callable[[Event], None],
    ) -> RunResult:
        runtime = self._require_open()
        begun = self._begun(contract, run_id)
        async with await self._reserve_planning(task, contract, ledger, run_id) as reservation:
            try:
                plan, contracted = await self._plan_in_time(task, contract, clock, reservation)
            except asyncio.CancelledError:
                cut_off = begun.unplanned(reservation, clock.milliseconds())
                await self._append(ExecutionRecord.from_interrupted_planning(task, cut_off, runtime.pool.names))
                raise
            planning_ms = clock.milliseconds()
            fitted = contracted.fitted
            await reserve_plan(reservation, fitted)
            planned = self._planned(plan, contracted)
            listen(planned)
            budget = RunBudget(contract, reservation, fitted.bounds)
            running = runtime.executor.begin(task, fitted.workflow, terms=Terms(budget, clock.deadline, listen))
            begun = begun.model_copy(
                update={
                    "planner": planned.planner,
                    "confidence": planned.confidence,
                    "forecast": planned.forecast,
                    "best_single": contracted.best_single,
                    "planning": plan.usage,
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
                await self._append(ExecutionRecord.from_run(so_far, task, cut_off, runtime.pool.names))
                raise
            finally:
                budget.close()
        if contracted.outlook is not None:
            begun = begun.model_copy(update={"success": contracted.outlook.afterwards(execution)})
        receipt = begun.ended(execution, budget, clock.milliseconds())
        await self._append(ExecutionRecord.from_run(execution, task, receipt, runtime.pool.names))
        require_whole(execution, contract)
        listen(AnswerReady(answer=execution.answer, receipt=receipt))
        return RunResult(execution.answer, execution.workflow, receipt, execution)

    def _begun(self, contract: Contract, run_id: str) -> Receipt:
        return Receipt(
            run_id=run_id,
            status="failed",
            contract=contract,
            planner=self._planning.planner.name,
            versions=self._versions,
        )

    async def _plan_in_time(
        self, task: Task, contract: Contract, clock: Clock, reservation: Reservation
    ) -> tuple[Plan, ContractedPlan]:
        queued = QueuedTask(task)
        await reservation.commit(reservation.amount)
        try:
            plan = await self._planning.plan(queued, clock.deadline)
            if plan.fault is not None:
                raise InfrastructureError(plan.fault.kind, f"planner: {plan.fault.reason}")
        except BaseException as error:
            if queued.asked:  # and nobody has seen the bill
                reservation.spend(reservation.amount)
            if isinstance(error, TooLateError):
                raise DeadlineError(
                    f"deadline_s={contract.deadline_s:g}: it passed before there was a plan; allow more time"
                ) from None
            raise
        if plan.usage is not None:
            reservation.spend(min(pico(plan.usage.cost_usd), reservation.amount))
        contractor, left = self._contractor, contract.less(reservation.spent_usd)
        if contractor.pool is None:
            return plan, contractor.fit(task, plan, left)
        return plan, await asyncio.to_thread(contractor.fit, task, plan, left)

    async def _reserve_planning(self, task: Task, contract: Contract, ledger: Account, run_id: str = "") -> Reservation:
        planner = self._planning.planner
        return await reserve_planning(ledger, contract, planner.name, planner.most_usd(task), run_id)

    async def _append(self, record: ExecutionRecord) -> None:
        if self._log is None:
            return
        try:
            await asyncio.shield(asyncio.to_thread(self._log.append, record))
        except UserError as error:
            logger.error("this run is in no log, though it was paid for: %s", error)
