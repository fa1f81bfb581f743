"""The planner that answers instructions: who plans, whether that is followed, and who works on it under a contract."""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from importlib import import_module
from threading import Lock
from typing import TYPE_CHECKING

from orchestai.admission import by_deadline
from orchestai.config import BASE, PlannerConfig, WorkersConfig
from orchestai.config.planner import NOTHING
from orchestai.config.running import Contract
from orchestai.config.workers import WHOLE_TOOLS
from orchestai.errors import UserError
from orchestai.execution.contract.forecast import Forecast, WholeForecast
from orchestai.execution.contract.trimming import ContractError, FittedPlan, Fitter
from orchestai.execution.request import build_request
from orchestai.execution.result import Decide, first_accepted
from orchestai.planner.base import Plan, Planner
from orchestai.planner.baselines import WholePlanner
from orchestai.planner.files import fingerprint_of, is_checkpoint
from orchestai.planner.registry import FewShotPlanner, planner_for
from orchestai.tasks.task import Task
from orchestai.workers.base import WorkerError
from orchestai.workers.pool import WorkerPool
from orchestai.workers.tools.registry import Tool
from orchestai.workflow import Subtask, Workflow

if TYPE_CHECKING:
    from orchestai.estimate.plan_options import PlanOptions
    from orchestai.planner.forecast import PlanForecaster, PoolForecaster

logger = logging.getLogger(__name__)


def doubt_of(plan: Plan, min_confidence: float) -> str:
    """What its planner did, that the plan is not followed; empty where it is.

    A plan of one step asks for the whole in any case.
    """
    if plan.fault is not None:
        return f"could not plan ({plan.fault.reason})"
    if plan.workflow is None:
        return f"made no plan ({plan.error})"
    if not plan.raw_valid:
        return "made an invalid plan"
    if len(plan.workflow) > 1 and plan.confidence is not None and plan.confidence < min_confidence:
        return f"was not sure ({plan.confidence:.2f})"
    return ""


def followed(
    name: str, plans: Sequence[Plan], tasks: Sequence[Task], whole: Planner, min_confidence: float
) -> list[Plan]:
    """The plans, and in place of those that are invalid, or not sure enough, the whole instruction as one step.

    Args:
        name: of whoever planned, which `planned_by` says of a plan in place of its own.
        whole: plans whole instructions.
    """
    made = []
    for task, plan in zip(tasks, plans, strict=True):
        doubt = doubt_of(plan, min_confidence)
        made.append(replace(whole.plan([task])[0], planned_by=f"whole, as {name} {doubt}") if doubt else plan)
    return made


class ToolsFirst:
    """Gives a text to the first tool that has an answer; another planner plans what none can do.

    Args:
        tools: by the names of their workers; those alone that decline what they do not understand to the last word.
        load_other: opens the other planner, when it is first needed.
    """

    def __init__(self, tools: Sequence[tuple[str, Tool]], load_other: Callable[[], Planner]) -> None:
        self._tools = tools
        self._load_other = load_other
        self._opening = Lock()
        self._other: Planner | None = None

    def plan(self, tasks: Sequence[Task]) -> list[Plan]:
        plans = [self._alone(task) for task in tasks]
        left = [task for task, plan in zip(tasks, plans, strict=True) if plan is None]
        others = iter(self.load().plan(left) if left else ())
        return [plan or next(others) for plan in plans]

    def load(self) -> Planner:
        """The other planner."""
        with self._opening:
            if self._other is None:
                self._other = self._load_other()
            return self._other

    def _alone(self, task: Task) -> Plan | None:
        """The whole instruction as one step of the first tool that has an answer."""
        workflow = Workflow([Subtask(id="1", instruction=task.instruction, span=(0, len(task.instruction)))])
        request = build_request(task, workflow, workflow.subtasks[0], kind="dataflow")
        for name, tool in self._tools:
            try:
                text = tool(request)
            except WorkerError:
                continue
            except Exception as error:
                logger.warning("%s broke down: %s: %s", name, type(error).__name__, error)
                continue
            if isinstance(text, str):
                chosen = workflow.replace({"1": {"worker": name}})
                return Plan(chosen, raw_valid=True, planned_by=f"{name}, which can do all of it")
        return None


def with_fallbacks(
    plans: Sequence[Plan], others: Sequence[str], where: Callable[[Subtask], bool] = lambda step: True
) -> list[Plan]:
    """The plans with more fallbacks: whoever asks wants another attempt before there is no answer.

    Args:
        others: in the order in which they are asked.
        where: in which steps; by default in all.
    """
    extended = []
    for plan in plans:
        if plan.workflow is not None:
            more = {
                step.id: {"fallback": (*step.fallback, *(name for name in others if name not in step.workers))}
                for step in plan.workflow.subtasks
                if where(step)
            }
            plan = replace(plan, workflow=plan.workflow.replace(more))
        extended.append(plan)
    return extended


def with_last_resort(plans: Sequence[Plan], workers: WorkersConfig) -> list[Plan]:
    """The plans with the last of the cascade for every step that has one worker, or tools alone: who is down, or
    declines, must not be the end. Elsewhere logs have taught the planner whether another attempt pays."""

    tools = {name for name, worker in workers.pool.items() if worker.kind == "tool"}
    return with_fallbacks(plans, workers.cascade[-1:], lambda step: not step.fallback or tools.issuperset(step.workers))


@dataclass(frozen=True)
class ServedPlanner:
    """A planner and what receipts say of it.

    Attributes:
        name: in words.
        plan: one plan per task; blocks.
        most_usd: what planning a task may cost.
        at_a_time: how often it may be called at once.
        together: with how many tasks it is called where as many wait.
        at_once: whether it takes no time, so that it is called in the event loop, with a task at a time.
        forecaster: what the estimate in its checkpoint says of the pool; None where there is none.
        versions: of its weights.
        only: whom it asks, where it has no choice.
        load: loads what would else be loaded when it is first needed; blocks.
    """

    name: str
    plan: Callable[[Sequence[Task]], list[Plan]]
    most_usd: Callable[[Task], float] = lambda task: 0.0
    at_a_time: int = 1
    together: int = 8
    at_once: bool = False
    forecaster: PoolForecaster | None = None
    versions: dict[str, str] = field(default_factory=dict)
    only: tuple[str, ...] = ()
    load: Callable[[], object] = lambda: None


def import_planner(checkpoint: str | None) -> None:
    """Import what a checkpoint needs, which takes seconds, beside whatever else is being opened."""
    if checkpoint not in (None, BASE) and is_checkpoint(checkpoint):
        _import_without_collecting("orchestai.planner.checkpoint")


def _import_without_collecting(module: str) -> None:
    """Import what stays: searching it for garbage, while it is imported and ever after, takes a seventh of the time."""
    if module in sys.modules:
        return
    enabled = gc.isenabled()
    gc.disable()
    try:
        import_module(module)
        gc.freeze()
    finally:
        if enabled:
            gc.enable()


async def open_planner(
    checkpoint: str | None, settings: PlannerConfig, workers: WorkersConfig, pool: WorkerPool
) -> ServedPlanner:
    """The planner of a checkpoint or a name; without either, the base planner.

    With `planner.base=none` whole tasks go to the cascade or the dearest worker instead.
    """
    is_base = checkpoint in (None, BASE) and settings.kind == "heads"
    if is_base and settings.base != NOTHING:
        return _base_planner(settings, workers, pool)
    if is_base or checkpoint is None:
        cascade = " > ".join(workers.cascade)
        asked = f"the cascade {cascade}" if cascade else f"{_dearest(pool)}, the dearest worker"
        name = f"no checkpoint: the whole instruction to {asked}"
        return ServedPlanner(name, whole_planner(workers, pool).plan, at_once=True)
    if is_checkpoint(checkpoint):
        loaded = (await asyncio.to_thread(planner_for, checkpoint, settings, workers, pool, 0))(0)
        from orchestai.planner.checkpoint import forecaster_of
        from orchestai.planner.slots.model import PlannerModel

        if settings.min_confidence and isinstance(loaded, PlannerModel) and not loaded.confidence.is_known:
            logger.warning(
                "%s: its confidence was not fitted, so nobody knows how sure it is of a plan, and its plans are "
                "followed whatever planner.min_confidence says",
                checkpoint,
            )

        whole = whole_planner(workers, pool)

        def plan(tasks: Sequence[Task]) -> list[Plan]:
            made = followed(checkpoint, loaded.plan(tasks), tasks, whole, settings.min_confidence)
            return with_last_resort(made, workers)

        return ServedPlanner(
            checkpoint,
            plan,
            forecaster=await asyncio.to_thread(forecaster_of, checkpoint),
            versions={"checkpoint": fingerprint_of(checkpoint)},
        )
    try:
        named = planner_for(checkpoint, settings, workers, pool, 0)(0)
    except UserError as error:
        raise UserError(str(error).replace("--planner", "--checkpoint", 1)) from None
    if isinstance(named, FewShotPlanner):
        return ServedPlanner(checkpoint, named.plan, named.most_usd, at_a_time=64, together=1)
    return ServedPlanner(checkpoint, named.plan)


def _base_planner(settings: PlannerConfig, workers: WorkersConfig, pool: WorkerPool) -> ServedPlanner:
    """The base planner, which is loaded for the first instruction that no tool can carry out alone."""
    order = workers.cascade or [card.name for card in sorted(pool.cards, key=lambda card: card.price_usd)]

    def load() -> Planner:
        _import_without_collecting("orchestai.planner.slots.onnx_planner")
        return planner_for(BASE, settings, workers, pool, 0)(0)

    tools = [name for name, worker in workers.pool.items() if worker.kind == "tool" and worker.tool in WHOLE_TOOLS]
    planner = ToolsFirst([(name, pool.tool(name)) for name in tools], load)
    whole = whole_planner(workers, pool)

    def plan(tasks: Sequence[Task]) -> list[Plan]:
        return with_fallbacks(followed(BASE, planner.plan(tasks), tasks, whole, settings.min_confidence), order)

    return ServedPlanner("the base planner", plan, versions={"checkpoint": fingerprint_of(BASE)}, load=planner.load)


def whole_planner(workers: WorkersConfig, pool: WorkerPool) -> WholePlanner:
    """Who asks the cascade, or else the dearest worker, for whole tasks."""
    first, *others = workers.cascade or [_dearest(pool)]
    return WholePlanner(first, others)


def _dearest(pool: WorkerPool) -> str:
    return max(pool.cards, key=lambda card: card.price_usd).name


class QueuedTask:
    """A task to be planned.

    Attributes:
        asked: whether the planner has been given it.
        outcome: its plan, or what the planner raised.
    """

    def __init__(self, task: Task) -> None:
        self.task = task
        self.asked = False
        self.outcome: asyncio.Future[Plan | BaseException] = asyncio.get_running_loop().create_future()


class PlanningQueue:
    """Calls a planner with at most `together` tasks, and `at_a_time` such calls, in threads of its own, so that one
    that hangs holds up nothing else.

    The next call begins when the event loop has begun to run the plans of the one before: where instructions come
    faster than that, they wait here, and the loop stays quick.
    """

    def __init__(self, planner: ServedPlanner) -> None:
        self.planner = planner
        self._threads = None if planner.at_once else ThreadPoolExecutor(planner.at_a_time, "planner")
        self._waiting: OrderedDict[QueuedTask, None] = OrderedDict()
        self._callers: set[asyncio.Task[None]] = set()

    async def plan(self, queued: QueuedTask, deadline: float | None) -> Plan:
        """The plan of a task.

        Args:
            deadline: on the clock of `time.monotonic`; None is none.

        Raises:
            TooLateError: there was no plan by the deadline.
            BaseException: what the planner raises for this task.
        """
        if self._threads is None:
            queued.asked = True
            return self.planner.plan([queued.task])[0]
        self._waiting[queued] = None
        if len(self._callers) < self.planner.at_a_time:
            caller = asyncio.ensure_future(self._call(self._threads))
            self._callers.add(caller)
            caller.add_done_callback(self._callers.discard)
        try:
            outcome = await by_deadline(queued.outcome, deadline)
        finally:
            self._waiting.pop(queued, None)
        if isinstance(outcome, BaseException):
            raise outcome
        return outcome

    async def _call(self, threads: Executor) -> None:
        """Plan until nobody waits."""
        loop = asyncio.get_running_loop()
        while self._waiting:
            count = min(self.planner.together, len(self._waiting))
            together = [self._waiting.popitem(last=False)[0] for _ in range(count)]
            for queued in together:
                queued.asked = True
            outcomes = await loop.run_in_executor(threads, _plan_each, self.planner, together)
            for queued, outcome in zip(together, outcomes, strict=True):
                if not queued.outcome.done():
                    queued.outcome.set_result(outcome)
            await asyncio.sleep(0)


def _plan_each(planner: ServedPlanner, queued: Sequence[QueuedTask]) -> Sequence[Plan | BaseException]:
    """Plan tasks together; where that fails each alone, so that it fails only for those whose fault it is."""
    try:
        return planner.plan([one.task for one in queued])
    except BaseException as error:
        return [error] if len(queued) == 1 else [outcome for one in queued for outcome in _plan_each(planner, [one])]


KEPT = "prefer: nothing is known of how these workers do on such steps, so the plan keeps its own"


@dataclass(frozen=True, eq=False)
class ContractedPlan:
    """A plan that keeps its contract, and what is expected of it and of the best single worker; None: nobody knows."""

    fitted: FittedPlan
    forecaster: PlanForecaster | None = None
    forecast: Forecast | None = None
    best_single: WholeForecast | None = None

    @property
    def decide(self) -> Decide:
        """Whether an answer stands."""
        return first_accepted if self.forecaster is None else self.forecaster.decide


@dataclass(frozen=True, eq=False)
class PlanContractor:
    """Fits plans to contracts.

    Args:
        fitter: knows worst cases.
        pool: what is known of the pool's workers; None where nothing is.
        longest: most workers to ask for one step.
    """

    fitter: Fitter
    pool: PoolForecaster | None
    longest: int

    def fit(self, task: Task, plan: Plan, contract: Contract) -> ContractedPlan:
        """The plan with its own workers, or those that the contract's `prefer` and `min_success` ask for.

        Whom to ask for a whole task the judge of answers says, where there is one. Else the estimate chooses. A plan
        some of whose workers it does not know keeps its own: what it knows of a few says nothing of whether they are
        better. With `min_success` alone these are the cheapest that reach it.

        Raises:
            ContractError: no choice of workers is sure enough, or keeps the contract, or nobody knows how sure one is.
        """
        if plan.workflow is None:
            raise UserError(f"no plan: {plan.error}")
        allowed = self.fitter.allowed(contract)
        if self.pool is None or not set(allowed) & self.pool.place.keys():
            self._refuse_unknown(contract)
            return self._kept(task, plan.workflow, contract, None)
        forecaster = self.pool.of(plan, task.instruction)
        if forecaster is not None and not forecaster.is_familiar and forecaster.judge is None:
            forecaster = None
        if forecaster is None or forecaster.confidence is None or not forecaster.is_familiar:
            self._refuse_unknown(contract)
        own = None if forecaster is None else forecaster.forecast(plan.workflow)
        wanted = contract.min_success is not None or (contract.prefer is not None and own is not None)
        options = None if forecaster is None else forecaster.ways(allowed)
        if forecaster is not None and options is None and wanted:
            options = forecaster.options(allowed, self.longest)
        if forecaster is not None and options is not None:
            planned = self._chosen(task, options, contract, forecaster)
        else:
            planned = self._kept(task, plan.workflow, contract, forecaster)
        return replace(planned, best_single=self.pool.whole(task.instruction, allowed))

    def _kept(
        self, task: Task, workflow: Workflow, contract: Contract, forecaster: PlanForecaster | None
    ) -> ContractedPlan:
        """The plan with its own workers, as far as the contract's limits allow."""
        fitted = self.fitter.fit(task, workflow, contract)
        if contract.prefer is not None:
            fitted = replace(fitted, changes=(*fitted.changes, KEPT))
        return ContractedPlan(fitted, forecaster, None if forecaster is None else forecaster.forecast(fitted.workflow))

    def _refuse_unknown(self, contract: Contract) -> None:
        if contract.min_success is not None:
            reason = (
                "this planner has no estimate of its workers, which prepare and train-phase1 learn from logs"
                if self.pool is None
                else "nobody knows how sure this plan is, or what workers do on steps like its own"
            )
            raise ContractError(f"min_success={contract.min_success:g}: {reason}; leave it out, or collect and train")
        if contract.prefer is not None and self.pool is None:
            raise ContractError(
                f"prefer={contract.prefer:g}: this planner has no estimate of its workers to choose them by; run "
                "prepare and train-phase1, or leave it out"
            )

    def _chosen(
        self, task: Task, options: PlanOptions, contract: Contract, forecaster: PlanForecaster
    ) -> ContractedPlan:
        """The best option that the contract's limits allow as it is; where they allow none, the best one trimmed."""
        least, reached = contract.min_success or 0.0, 0.0
        trimmed: ContractedPlan | None = None
        for place in self._ranked(options, contract, forecaster):
            if options.ways:
                forecaster = replace(forecaster, way=options.ways[place])
            fitted = self.fitter.fit(task, forecaster.with_workers(options.workers[place]), contract)
            forecast = forecaster.forecast(fitted.workflow)
            success = None if forecast is None else forecast.success
            if contract.min_success is None or (success is not None and success >= least):
                planned = ContractedPlan(fitted, forecaster, forecast)
                if not fitted.changes:
                    return planned
                trimmed = trimmed or planned
            reached = max(reached, success or 0.0)
        if trimmed is not None:
            return trimmed
        likeliest = float(options.success.max())
        beyond = "" if likeliest < least else " within the other limits of the contract"
        raise ContractError(
            f"min_success={least:g}: no choice of workers for this plan reaches it{beyond}; the likeliest is right "
            f"with a chance of {reached if beyond else likeliest:.2f}, the plan itself with {forecaster.confidence:.2f}"
            "; ask for less, or allow more workers or money"
        )

    def _ranked(self, options: PlanOptions, contract: Contract, forecaster: PlanForecaster) -> Iterator[int]:
        """The options that are sure enough, best first; the cheapest is best where nothing is preferred.

        Of ways without a wanted success it is the usual one, then the one that is right most often.
        """
        if forecaster.judge is not None and options.ways and contract.prefer is None and contract.min_success is None:
            usual, success = forecaster.judge.usual, options.success
            yield from sorted(range(len(success)), key=lambda place: (options.ways[place] != usual, -success[place]))
            return
        from orchestai.estimate.plan_options import by_preference

        typical = forecaster.pool.estimate.typical_usd
        sure = options.success >= (contract.min_success or 0.0)
        order = by_preference(options.success, options.price / max(typical, 1e-12), contract.prefer or 0.0)
        yield from (int(place) for place in order if sure[place])
