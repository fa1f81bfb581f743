"""The planner that answers instructions: a checkpoint, one that has a name, or what there is without any."""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from threading import Lock
from typing import TYPE_CHECKING

from orchestai.config import BASE, PlannerConfig, WorkersConfig
from orchestai.config.planner import NOTHING
from orchestai.config.workers import WHOLE_TOOLS
from orchestai.errors import UserError
from orchestai.execution.request import build_request
from orchestai.planner.base import Plan, Planner
from orchestai.planner.baselines import WholePlanner
from orchestai.planner.checkpoint_files import fingerprint_of, is_checkpoint
from orchestai.planner.registry import FewShotPlanner, planner_for
from orchestai.tasks.task import Task
from orchestai.workers.base import Request, WorkerError
from orchestai.workers.pool import WorkerPool
from orchestai.workers.tools.registry import Tool, steps_for_tools
from orchestai.workflow import Subtask, Workflow

if TYPE_CHECKING:
    from orchestai.planner.outlook import PoolOutlook


class FallbackPlanner:
    """Asks planners in turn: a plan that is invalid, or of which its planner is not sure, is left to the next.

    The last one is not asked how sure it is; where it makes no plan, the first valid plan of the others is taken. Each
    plan that was left to another says so in `planned_by`.

    Args:
        planners: by what they are called; the first leads.
        min_confidence: below it, in [0, 1], a planner is not sure. One that does not say is.
    """

    def __init__(self, planners: Mapping[str, Planner], min_confidence: float) -> None:
        if not planners:
            raise ValueError("no planner is given")
        self._planners = list(planners.items())
        self._min_confidence = min_confidence

    def plan(self, tasks: Sequence[Task]) -> list[Plan]:
        attempts: list[list[tuple[str, Plan]]] = [[] for _ in tasks]
        left = list(range(len(tasks)))
        for name, planner in self._planners:
            if not left:
                break
            for i, plan in zip(left, planner.plan([tasks[i] for i in left]), strict=True):
                attempts[i].append((name, plan))
            left = [i for i in left if doubt_of(attempts[i][-1][1], self._min_confidence)]
        return [self._chosen(each) for each in attempts]

    def _chosen(self, attempts: Sequence[tuple[str, Plan]]) -> Plan:
        """The last plan, or the first valid one where that is none."""
        (name, plan), doubted = attempts[-1], attempts[:-1]
        valid = [attempt for attempt in doubted if attempt[1].workflow is not None and attempt[1].raw_valid]
        if plan.workflow is None and valid:
            (name, plan), doubted = valid[0], attempts
        doubts = [f"{who} {doubt_of(made, self._min_confidence)}" for who, made in doubted]
        return replace(plan, planned_by=f"{name}, as {'; '.join(doubts)}") if doubts else plan


def doubt_of(plan: Plan, min_confidence: float) -> str:
    """What its planner did, that the plan is left to the next one; empty where it is not.

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


class ToolsFirst:
    """Gives a text to the first tools that have answers to its steps; another planner plans what none can do.

    Args:
        tools: by the names of their workers; those alone that decline what they do not understand to the last word.
        steps: splits an instruction that tools can carry out one after the other.
        load_other: opens the other planner, when it is first needed.
    """

    def __init__(
        self,
        tools: Sequence[tuple[str, Tool]],
        steps: Callable[[str], Sequence[str]],
        load_other: Callable[[], Planner],
    ) -> None:
        self._tools = tools
        self._steps = steps
        self._load_other = load_other
        self._opening = Lock()
        self._other: Planner | None = None

    def plan(self, tasks: Sequence[Task]) -> list[Plan]:
        plans = [self._for_tools(task) for task in tasks]
        left = [task for task, plan in zip(tasks, plans, strict=True) if plan is None]
        others = iter(self.load().plan(left) if left else ())
        return [plan or next(others) for plan in plans]

    def load(self) -> Planner:
        """The other planner.

        Raises:
            UserError: it cannot be opened.
        """
        with self._opening:
            if self._other is None:
                self._other = self._load_other()
            return self._other

    def _for_tools(self, task: Task) -> Plan | None:
        whole = (task.instruction,)
        several = () if task.wants_program or not self._tools else self._steps(task.instruction)
        return next(filter(None, (self._chain(task, steps) for steps in (several, whole) if steps)), None)

    def _chain(self, task: Task, steps: Sequence[str]) -> Plan | None:
        subtasks = [
            Subtask(
                id=str(i + 1), instruction=step, depends_on=(str(i),) if i else (), span=_span(task.instruction, step)
            )
            for i, step in enumerate(steps)
        ]
        workflow = Workflow(subtasks)
        workers: dict[str, dict[str, str]] = {}
        given: dict[str, str] = {}
        for subtask in workflow.subtasks:
            answered = self._answered(build_request(task, workflow, subtask, kind="dataflow", inputs=given))
            if answered is None:
                return None
            workers[subtask.id], given = {"worker": answered[0]}, {subtask.id: answered[1]}
        names = " and ".join(dict.fromkeys(chosen["worker"] for chosen in workers.values()))
        return Plan(workflow.replace(workers), raw_valid=True, planned_by=f"{names}, which can do all of it")

    def _answered(self, request: Request) -> tuple[str, str] | None:
        """The first tool that has an answer, and that."""
        for name, tool in self._tools:
            try:
                text = tool(request)
            except WorkerError:
                continue
            except Exception as error:
                logger.warning("%s broke down: %s: %s", name, type(error).__name__, error)
                continue
            if isinstance(text, str):
                return name, text
        return None


def _span(instruction: str, step: str) -> tuple[int, int] | None:
    start = instruction.find(step)
    return (start, start + len(step)) if start >= 0 else None


def with_fallbacks(
    plans: Sequence[Plan], others: Sequence[str], where: Callable[[Subtask], bool] = lambda step: True
) -> list[Plan]:
    """The plans with more fallbacks: whoever asks wants another attempt before there is no answer.

    Args:
        others: in the order in which they are asked.
        where: in which steps; by default in all.
    """

    def extended(plan: Plan) -> Plan:
        if plan.workflow is None:
            return plan
        more = {
            step.id: {"fallback": (*step.fallback, *(name for name in others if name not in step.workers))}
            for step in plan.workflow.subtasks
            if where(step)
        }
        return replace(plan, workflow=plan.workflow.replace(more))

    return [extended(plan) for plan in plans]


def with_last_resort(plans: Sequence[Plan], workers: WorkersConfig) -> list[Plan]:
    """The plans with the last of the cascade for every step that has one worker, or tools alone: who is down, or
    declines, must not be the end. Elsewhere logs have taught the planner whether another attempt pays."""

    def is_alone(step: Subtask) -> bool:
        kinds = {workers.pool[name].kind for name in step.workers if name in workers.pool}
        return not step.fallback or kinds == {"tool"}

    return with_fallbacks(plans, workers.cascade[-1:], is_alone)


logger = logging.getLogger(__name__)
WHOLE = "whole"
"""In `planner.fallback`: the whole instruction as one step."""


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
        outlook: what the estimate in its checkpoint says of the pool; None where there is none.
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
    outlook: PoolOutlook | None = None
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

    Raises:
        UserError: see `planner_for` and `load_planner`.
    """
    is_base = checkpoint in (None, BASE) and settings.kind == "heads"
    if is_base and settings.base != NOTHING:
        return _base_planner(settings, workers, pool)
    if is_base or checkpoint is None:
        name, whole = _whole(workers, pool)
        return ServedPlanner(f"no checkpoint: {name}", whole.plan, at_once=True)
    if is_checkpoint(checkpoint):
        loaded = (await asyncio.to_thread(planner_for, checkpoint, settings, workers, pool, 0))(0)
        if settings.fallback and settings.min_confidence:
            from orchestai.planner.slots.model import PlannerModel

            if isinstance(loaded, PlannerModel) and not loaded.confidence.is_known:
                logger.warning(
                    "%s: its confidence was not fitted, so nobody knows how sure it is of a plan, and its plans are "
                    "followed whatever planner.min_confidence says",
                    checkpoint,
                )
        others = open_fallbacks(checkpoint, settings, workers, pool)
        planner = FallbackPlanner({checkpoint: loaded, **others}, settings.min_confidence)
        versions = {"checkpoint": fingerprint_of(checkpoint)}
        from orchestai.planner.outlook import open_outlook

        outlook = await asyncio.to_thread(open_outlook, checkpoint)

        def plan(tasks: Sequence[Task]) -> list[Plan]:
            return with_last_resort(planner.plan(tasks), workers)

        return ServedPlanner(checkpoint, plan, outlook=outlook, versions=versions)
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
        _import_without_collecting("orchestai.planner.slots.light")
        loaded = planner_for(BASE, settings, workers, pool, 0)(0)
        return FallbackPlanner({BASE: loaded, **open_fallbacks(BASE, settings, workers, pool)}, settings.min_confidence)

    tools = [name for name, worker in workers.pool.items() if worker.kind == "tool" and worker.tool in WHOLE_TOOLS]
    planner = ToolsFirst([(name, pool.tool(name)) for name in tools], steps_for_tools, load)
    return ServedPlanner(
        "the base planner",
        lambda tasks: with_fallbacks(planner.plan(tasks), order),
        versions={"checkpoint": fingerprint_of(BASE)},
        load=planner.load,
    )


def open_fallbacks(
    checkpoint: str, settings: PlannerConfig, workers: WorkersConfig, pool: WorkerPool
) -> dict[str, Planner]:
    """Who plans what the checkpoint is not sure of, by name, in the order in which they are asked.

    Raises:
        UserError: a name of `planner.fallback` is no planner that can be asked.
    """
    return {name: _fallback(name, settings, workers, pool) for name in settings.fallback if name != checkpoint}


def _fallback(name: str, settings: PlannerConfig, workers: WorkersConfig, pool: WorkerPool) -> Planner:
    if name == WHOLE:
        return _whole(workers, pool)[1]
    try:
        planner = planner_for(name, settings, workers, pool, 0)(0)
    except UserError as error:
        raise UserError(str(error).replace("--planner", "planner.fallback:", 1)) from None
    if isinstance(planner, FewShotPlanner):
        raise UserError(
            f"planner.fallback: {name} is paid for every plan, which no contract would count; name a checkpoint, or "
            f"{WHOLE}"
        )
    return planner


def _whole(workers: WorkersConfig, pool: WorkerPool) -> tuple[str, WholePlanner]:
    """Who asks workers for whole tasks, and what that is in words."""
    if workers.cascade:
        first, *others = workers.cascade
        cascade = " > ".join(workers.cascade)
        return f"the whole instruction to the cascade {cascade}", WholePlanner(first, others)
    dearest = max(pool.cards, key=lambda card: card.price_usd)
    return f"the whole instruction to {dearest.name}, the dearest worker", WholePlanner(dearest.name)
