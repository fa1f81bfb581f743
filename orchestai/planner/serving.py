"""The planner that answers instructions: a checkpoint, one that has a name, or what there is without any."""

from __future__ import annotations

import asyncio
import gc
import logging
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from typing import TYPE_CHECKING

from orchestai.config import BASE, PlannerConfig, WorkersConfig
from orchestai.config.contract import Contract
from orchestai.config.planner import NOTHING
from orchestai.config.workers import WHOLE_TOOLS
from orchestai.errors import UserError
from orchestai.planner.base import Plan, Planner, Preferences
from orchestai.planner.baselines.few_shot import FewShotPlanner
from orchestai.planner.baselines.reference import WholePlanner
from orchestai.planner.checkpoint_files import fingerprint_of, is_checkpoint
from orchestai.planner.fallback import FallbackPlanner
from orchestai.planner.last_resort import with_all_others, with_last_resort
from orchestai.planner.registry import planner_for
from orchestai.planner.tools_first import ToolsFirst
from orchestai.preference import Preference
from orchestai.tasks.task import Task
from orchestai.workers.pool import WorkerPool

if TYPE_CHECKING:
    from orchestai.execution.reward_reference import Reference
    from orchestai.planner.outlook import PoolOutlook

logger = logging.getLogger(__name__)
WHOLE = "whole"
"""In `planner.fallback`: the whole instruction as one step."""


def _nothing(task: Task) -> float:
    """What a planner costs that computes for itself."""
    return 0.0


def _loaded() -> None:
    """Load nothing more."""


@dataclass(frozen=True)
class Preferred:
    """How a planner that has learned preferences plans by them.

    Attributes:
        plan: one plan per task; blocks.
        reference: what a typical execution costs, and how long it takes, by which it learned them; None: nobody knows.
    """

    plan: Callable[[Sequence[Task], Preferences], list[Plan]]
    reference: Reference | None

    def preference(self, contract: Contract) -> Preference | None:
        """What a contract asks for; None where it leaves the choice to the planner."""
        if contract.prefer is None:
            return None
        usd, ms = (self.reference.cost_usd, self.reference.latency_ms) if self.reference else (0.0, 0.0)
        return Preference.priced(contract.prefer, contract.hour_usd, usd, ms / 1000)


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
        preferred: how it plans by preferences; None where it has not learned them.
        load: loads what would else be loaded when it is first needed; blocks.
    """

    name: str
    plan: Callable[[Sequence[Task]], list[Plan]]
    most_usd: Callable[[Task], float] = _nothing
    at_a_time: int = 1
    together: int = 8
    at_once: bool = False
    outlook: PoolOutlook | None = None
    versions: dict[str, str] = field(default_factory=dict)
    only: tuple[str, ...] = ()
    preferred: Preferred | None = None
    load: Callable[[], object] = _loaded

    def preference(self, contract: Contract) -> Preference | None:
        """What a contract asks of the planner itself; None where it asks nothing, or the planner has not learned it."""
        return None if self.preferred is None else self.preferred.preference(contract)

    def plan_each(self, tasks: Sequence[Task], preferences: Preferences) -> list[Plan]:
        """One plan per task, each by its preference."""
        if self.preferred is None or not any(preferences):
            return self.plan(tasks)
        return self.preferred.plan(tasks, preferences)


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
    if checkpoint in (None, BASE) and settings.kind == "heads":
        if settings.base == NOTHING:
            return _without_checkpoint(workers, pool)
        return _base_planner(settings, workers, pool)
    if checkpoint is None:
        return _without_checkpoint(workers, pool)
    if is_checkpoint(checkpoint):
        loaded = (await asyncio.to_thread(planner_for, checkpoint, settings, workers, pool, 0))(0)
        if settings.fallback and settings.min_confidence:
            _warn_if_unfitted(checkpoint, loaded)
        others = open_fallbacks(checkpoint, settings, workers, pool)
        planner = FallbackPlanner({checkpoint: loaded, **others}, settings.min_confidence)
        versions = {"checkpoint": fingerprint_of(checkpoint)}
        outlook = await asyncio.to_thread(_outlook_of, checkpoint)

        def plan(tasks: Sequence[Task], preferences: Preferences | None = None) -> list[Plan]:
            plans = planner.plan(tasks, preferences=preferences)
            if not workers.cascade:
                return plans
            learned = not settings.allow_new_pool
            return with_last_resort(tasks, plans, pool.cards, workers.cascade[-1], learned=learned)

        preferred = await asyncio.to_thread(_preferred, checkpoint, plan) if planner.prefers else None
        return ServedPlanner(checkpoint, plan, outlook=outlook, versions=versions, preferred=preferred)
    try:
        named = planner_for(checkpoint, settings, workers, pool, 0)(0)
    except UserError as error:
        raise UserError(str(error).replace("--planner", "--checkpoint", 1)) from None
    if isinstance(named, FewShotPlanner):
        return ServedPlanner(checkpoint, named.plan, named.most_usd, at_a_time=64, together=1)
    return ServedPlanner(checkpoint, named.plan)


def _base_planner(settings: PlannerConfig, workers: WorkersConfig, pool: WorkerPool) -> ServedPlanner:
    """The base planner, which is loaded for the first instruction that no tool can carry out alone."""
    order = workers.cascade or _by_price(pool)

    def load() -> Planner:
        _import_without_collecting("orchestai.planner.slots.light")
        loaded = planner_for(BASE, settings, workers, pool, 0)(0)
        return FallbackPlanner({BASE: loaded, **open_fallbacks(BASE, settings, workers, pool)}, settings.min_confidence)

    tools = [name for name, worker in workers.pool.items() if worker.kind == "tool" and worker.tool in WHOLE_TOOLS]
    planner = ToolsFirst([(name, pool.tool(name)) for name in tools], load)
    return ServedPlanner(
        "the base planner",
        lambda tasks: with_all_others(planner.plan(tasks), order),
        versions={"checkpoint": fingerprint_of(BASE)},
        load=planner.load,
    )


def _preferred(checkpoint: str, plan: Callable[[Sequence[Task], Preferences], list[Plan]]) -> Preferred:
    from orchestai.planner.checkpoint import reference_of

    return Preferred(plan, reference_of(checkpoint))


def _outlook_of(checkpoint: str) -> PoolOutlook | None:
    from orchestai.planner.outlook import open_outlook

    return open_outlook(checkpoint)


def _warn_if_unfitted(checkpoint: str, loaded: Planner) -> None:
    from orchestai.planner.slots.model import PlannerModel

    if isinstance(loaded, PlannerModel) and not loaded.confidence.is_known:
        logger.warning(
            "%s: its confidence was not fitted, so nobody knows how sure it is of a plan, and its plans are followed "
            "whatever planner.min_confidence says",
            checkpoint,
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


def _by_price(pool: WorkerPool) -> list[str]:
    """Workers from the cheapest to the dearest."""
    return [card.name for card in sorted(pool.cards, key=lambda card: card.price_usd)]


def _without_checkpoint(workers: WorkersConfig, pool: WorkerPool) -> ServedPlanner:
    name, planner = _whole(workers, pool)
    return ServedPlanner(f"no checkpoint: {name}", planner.plan, at_once=True)


def _whole(workers: WorkersConfig, pool: WorkerPool) -> tuple[str, WholePlanner]:
    """Who asks workers for whole tasks, and what that is in words."""
    if workers.cascade:
        first, *others = workers.cascade
        cascade = " > ".join(workers.cascade)
        return f"the whole instruction to the cascade {cascade}", WholePlanner(first, others)
    dearest = max(pool.cards, key=lambda card: card.price_usd)
    return f"the whole instruction to {dearest.name}, the dearest worker", WholePlanner(dearest.name)
