"""The product in one object: plans an instruction, runs the plan under a contract, and shows its receipt."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import TypeVar

from orchestai import __version__
from orchestai.admission import Admission, TooLateError
from orchestai.answering import Answering, Event, Order, Resilience, RunResult
from orchestai.config import DEFAULT_CONFIG, FIRST_POOL, Config, Contract, load_config
from orchestai.errors import UserError
from orchestai.execution.contract.deadline import Clock, DeadlineError
from orchestai.execution.contract.ledger import Account, Ledger
from orchestai.execution.contract.receipt import Receipt
from orchestai.execution.events import PlanReady
from orchestai.execution.log import ExecutionLog
from orchestai.execution.record import ExecutionRecord
from orchestai.execution.runtime import Runtime, open_runtime
from orchestai.planner.serving import PlanningQueue, ServedPlanner, import_planner, open_planner
from orchestai.storage import artifacts
from orchestai.tasks.asked_task import AnswerKind, asked_task
from orchestai.tasks.dialogue import Dialogue
from orchestai.threads import BackgroundLoop
from orchestai.workflow import Workflow

__all__ = ["Event", "Orchestrator", "RunResult", "new_run_id"]

T = TypeVar("T")


def new_run_id() -> str:
    """A name for a run that no other has.

    Its 80 bits are enough for all runs of a database, and leave ids of calls the 40 characters that OpenAI allows.
    """
    return f"run-{secrets.token_hex(10)}"


class Orchestrator:
    """Answers instructions with a planner and a pool of workers.

    `async with Orchestrator.open(checkpoint, config) as o:` for programs with an event loop; many runs may be on their
    way at a time. Elsewhere, and in notebooks, `run_sync` opens what it needs, and `close` or `with` closes it.
    """

    def __init__(
        self,
        config: Config,
        checkpoint: str | None,
        *,
        log: Path | None = None,
        ledger: Ledger | None = None,
        resilience: Resilience | None = None,
        keep: Callable[[ExecutionRecord], ExecutionRecord] | None = None,
    ) -> None:
        self.config = config
        self.checkpoint = checkpoint
        self.ledger = ledger or Ledger()
        self._resilience = resilience
        self._keep = keep
        self.log_folder = log
        self._log = ExecutionLog(log) if log is not None else None
        self._stack = AsyncExitStack()
        self._background: BackgroundLoop | None = None
        self._runtime: Runtime | None = None
        self._planning: PlanningQueue
        self._other_planners: dict[str, PlanningQueue] = {}
        self._in_work: Admission
        self._answering: Answering

    @classmethod
    def open(
        cls,
        checkpoint: Path | str | None = None,
        config: Config | Path | str | None = None,
        *,
        overrides: Sequence[str] = (),
        log: Path | str | None = "execution_logs",
        ledger: Ledger | None = None,
        resilience: Resilience | None = None,
        keep: Callable[[ExecutionRecord], ExecutionRecord] | None = None,
    ) -> Orchestrator:
        """An orchestrator that is opened by `async with`, `with` or its first `run_sync`.

        Args:
            checkpoint: of phase 1 or 2, or the name of a planner as `collect` takes it. None: the configured cascade,
                or the dearest worker alone, is asked for the whole of every instruction.
            config: a configuration or its file; None is `config.yaml` here. Where there is none, tools and the embedded
                model answer, or, with a checkpoint, the pool of the composition suite.
            overrides: such as `execution.concurrency=8`.
            log: folder of the execution log, to which every run is appended; None keeps no log.
            ledger: of what all its runs may cost together; None is no limit.
            resilience: when the planner is given up for the best single worker, and when a worker is not asked any
                more; None: never.
            keep: gives what the log keeps of a run; None keeps all of it.
        """
        if not isinstance(config, Config):
            default = FIRST_POOL if checkpoint is None else None
            config = load_config(Path(config or DEFAULT_CONFIG), list(overrides), default=default)
        elif overrides:
            raise UserError("overrides are for a configuration that is read from a file; change the object instead")
        named = None if checkpoint is None else str(checkpoint)
        return cls(
            config, named, log=None if log is None else Path(log), ledger=ledger, resilience=resilience, keep=keep
        )

    def planner_named(self, name: str | None) -> ServedPlanner:
        """The planner that `take_over` was given under a name; None is that of the checkpoint, or its successor."""
        self._require_open()
        return (self._planning if name is None else self._other_planners[name]).planner

    @property
    def workers(self) -> list[str]:
        """Names of the pool."""
        return self._require_open().pool.names

    @property
    def out_of_order(self) -> list[str]:
        """Workers that are not asked now, since they failed again and again."""
        return self._require_open().pool.out_of_order

    @property
    def sandbox_level(self) -> str:
        """How programs are held."""
        return self._require_open().sandbox.level

    async def plan(
        self, instruction: str, contract: Contract | None = None, *, answer: AnswerKind | None = None
    ) -> PlanReady:
        """The workflow that would be run, with its worst case; only the planner itself is paid, if anybody is.

        Raises:
            ContractError: no choice of workers keeps the contract.
            UserError: there is no plan.
            InfrastructureError: the planner's model cannot be had.
        """
        self._require_open()
        contract = contract or self.config.contract
        task = asked_task(instruction, answer, self.config.tasks)
        order = Order(task, contract, Clock(contract.deadline_s), self.ledger, "", lambda event: None)
        return await self._answering.plan(order, self._planning)

    async def run(
        self,
        instruction: str,
        contract: Contract | None = None,
        *,
        answer: AnswerKind | None = None,
        ledger: Account | None = None,
        run_id: str | None = None,
        planner: str | None = None,
        worker: str | None = None,
        workflow: Workflow | None = None,
        dialogue: Dialogue | None = None,
        listen: Callable[[Event], None] = lambda event: None,
        pieces: bool = False,
        settled: Callable[[Receipt], None] = lambda receipt: None,
    ) -> RunResult:
        """Plan, reserve the worst case, run the plan and append it to the log.

        Args:
            contract: None is that of the configuration.
            answer: whether a program or a text is wanted; None is what is configured (`tasks.answer`).
            ledger: who pays for this run; None is the orchestrator's own.
            run_id: of the receipt and the line of the log, `run-` and twelve hexadecimal digits; None draws one.
            planner: the name under which `take_over` was given the planner that plans; None is that of the checkpoint.
            worker: is asked for the whole instruction, without a planner; None plans.
            workflow: is run as it is, without a planner.
            dialogue: the conversation in which the instruction was said, if it was.
            listen: is told at once what happens; it must not take long.
            pieces: whether it is told a text that answers piece by piece (`AnswerPiece`), where its worker streams.
            settled: is told the receipt, also of a run that is interrupted or whose answer is refused.

        Raises:
            ContractError: no choice of workers keeps the contract, or the ledger has less than the plan may need.
            DeadlineError: there is no answer in time.
            UserError: there is no plan.
            InfrastructureError: the planner's model cannot be had.
        """
        self._require_open()
        contract = contract or self.config.contract
        if not isinstance(contract, Contract):
            raise TypeError(f"the contract is a Contract, not {type(contract).__name__}")
        clock = Clock(contract.deadline_s)
        task = asked_task(instruction, answer, self.config.tasks, dialogue)
        planning = self._planning if planner is None else self._other_planners[planner]
        planning = planning if worker is None else self._answering.alone(worker)
        planning = planning if workflow is None else self._answering.fixed(workflow)
        account, run_id = ledger or self.ledger, run_id or new_run_id()
        order = Order(task, contract, clock, account, run_id, listen, pieces, settled)
        try:
            await self._in_work.enter(clock.deadline)
        except TooLateError:
            raise DeadlineError(
                f"deadline_s={contract.deadline_s:g}: it passed while {self.config.execution.concurrency} other runs "
                "were in work; allow more time, or raise execution.concurrency"
            ) from None
        try:
            return await self._answering.answer(order, planning)
        finally:
            self._in_work.leave()

    async def load(self) -> None:
        """Load the planner, and start the sandbox, before an instruction needs them: servers are quick at once."""
        runtime, planner = self._require_open(), self._planning.planner
        await asyncio.to_thread(lambda: (planner.load(), runtime.sandbox.level))

    async def open_planner(self, checkpoint: str) -> ServedPlanner:
        """Another planner for the same workers."""
        return await open_planner(checkpoint, self.config.planner, self.config.workers, self._require_open().pool)

    def take_over(self, planner: ServedPlanner, name: str | None = None) -> None:
        """Let a planner plan what is asked from now on; the one before ends what it has begun.

        Args:
            name: under which runs may ask for it; None plans all runs that name no planner.
        """
        self._require_open()
        if name is None:
            self._planning = PlanningQueue(planner)
        else:
            self._other_planners[name] = PlanningQueue(planner)

    async def stream(
        self,
        instruction: str,
        contract: Contract | None = None,
        *,
        answer: AnswerKind | None = None,
        ledger: Account | None = None,
    ) -> AsyncIterator[Event]:
        """`run`, giving what happens as it happens; the last event is `AnswerReady`. Leaving it cancels the run."""
        events: asyncio.Queue[Event | None] = asyncio.Queue()
        running = asyncio.ensure_future(
            self.run(instruction, contract, answer=answer, ledger=ledger, listen=events.put_nowait)
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
        work = self.run(instruction, contract, answer=answer)
        try:
            background = self._open_in_background()
        except BaseException:
            work.close()
            raise
        return background.run(work)

    async def __aenter__(self) -> Orchestrator:
        if self._runtime is not None:
            raise RuntimeError("this orchestrator is open already; open another with Orchestrator.open")
        if self._log is not None:
            self._log.check()
        config = self.config
        importing = asyncio.get_running_loop().run_in_executor(None, import_planner, self.checkpoint)
        try:
            runtime = await self._stack.enter_async_context(
                open_runtime(
                    config.workers, config.execution, config.sandbox, imports=importing, sandbox_when_needed=True
                )
            )
            planner = await open_planner(self.checkpoint, config.planner, config.workers, runtime.pool)
        except BaseException:
            await self._stack.aclose()
            raise
        self._runtime = runtime
        self._planning = PlanningQueue(planner)
        self._in_work = Admission(config.execution.concurrency)
        versions = {"orchestai": __version__, **artifacts.versions()}
        self._answering = Answering(config, runtime, self._log, versions, self._resilience, self._keep)
        self._stack.push_async_callback(self._answering.close)
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

    def _require_open(self) -> Runtime:
        if self._runtime is None:
            raise RuntimeError("this orchestrator is not open; use `async with`, `with` or `run_sync`")
        return self._runtime
