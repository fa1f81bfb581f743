"""The planner that a command line names."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from orchestai.config import BASE, PlannerConfig, WorkersConfig
from orchestai.config.planner import NOTHING
from orchestai.errors import UserError
from orchestai.planner.base import Planner
from orchestai.planner.baselines import (
    Decomposer,
    FixedAssignment,
    HeuristicPlanner,
    RandomAssignment,
    RandomPlanner,
    ReferencePlanner,
    WholePlanner,
    needs_decomposer,
)
from orchestai.planner.checkpoint_files import is_checkpoint
from orchestai.planner.few_shot import FewShotPlanner
from orchestai.tasks.task import Task
from orchestai.workers.pool import WorkerPool, worker_cards
from orchestai.workers.prices import planner_prices

NAMES = "reference, random, heuristic, llm, base, reference:WORKER, whole:WORKER or the path of a checkpoint"


logger = logging.getLogger(__name__)


def planner_for(
    name: str,
    settings: PlannerConfig,
    workers: WorkersConfig,
    pool: WorkerPool,
    seed: int,
    tasks: Sequence[Task] = (),
) -> Callable[[int], Planner]:
    """What makes the planner of a repetition: `reference` and `random` draw anew for each, the others repeat.

    Args:
        name: `reference` (reference decomposition, random workers), `random`, `heuristic`, `llm`, `reference:WORKER`
            (every subtask to one worker), `whole:WORKER` (the task as one subtask), `base` (the configured language
            model before any training here), or the path of a checkpoint.
        tasks: what it is to plan. Where `reference` has to plan tasks without one, a warning says who decomposes them.

    Raises:
        UserError: no planner or worker has this name, or nothing says what the `llm` planner's model costs.
    """
    kind, _, worker = name.partition(":")
    if worker and kind in ("reference", "whole"):
        if worker not in pool.names:
            raise UserError(f"--planner {name}: no worker {worker!r}; the pool has {', '.join(pool.names)}")
        if kind == "whole":
            return lambda repetition: WholePlanner(worker)
        decomposer = _decomposer(settings, workers, pool, tasks)
        return lambda repetition: ReferencePlanner(FixedAssignment((worker,)), decomposer=decomposer)
    if name == "reference":
        decomposer = _decomposer(settings, workers, pool, tasks)
        assignment = RandomAssignment(tuple(pool.names), settings.max_fallbacks)
        return lambda repetition: ReferencePlanner(assignment, _mixed(seed, repetition), decomposer)
    if name == "random":
        return lambda repetition: RandomPlanner(pool.names, settings, seed=_mixed(seed, repetition))
    single = _single(name, settings, workers, pool)
    return lambda repetition: single


def _single(name: str, settings: PlannerConfig, workers: WorkersConfig, pool: WorkerPool) -> Planner:
    if name == "heuristic":
        return HeuristicPlanner(workers.cascade or pool.names, settings)
    if name == "llm":
        if workers.planner_model is None:
            raise UserError("--planner llm: workers.planner_model names no model; set it to a key of workers.models")
        prices = planner_prices(workers)
        return FewShotPlanner(pool.generator(workers.planner_model), pool.cards, settings, prices)
    if is_checkpoint(name):
        return open_to_plan(name, settings, workers)
    raise UserError(f"--planner {name}: neither a checkpoint nor one of {NAMES}")


def _decomposer(
    settings: PlannerConfig, workers: WorkersConfig, pool: WorkerPool, tasks: Sequence[Task]
) -> Decomposer | None:
    """Who splits the tasks that nobody knows a reference decomposition of; None where there are none."""
    unknown = sum(map(needs_decomposer, tasks))
    if not unknown:
        return None
    model = workers.planner_model
    trained = settings.kind == "heads" and settings.base != NOTHING
    rules = _single(BASE if trained else "heuristic", settings, workers, pool)
    written = _single("llm", settings, workers, pool) if model else None
    decomposer = Decomposer(rules, "the base planner" if trained else "heuristic", written, model or "")
    logger.warning(
        "%d of %d tasks have no reference decomposition; they are decomposed %s",
        unknown,
        len(tasks),
        decomposer.description,
    )
    return decomposer


def _mixed(seed: int, repetition: int) -> int:
    return seed * 1_000_003 + repetition


def open_to_plan(name: str, settings: PlannerConfig, workers: WorkersConfig) -> Planner:
    """The planner of a checkpoint, to plan and not to train; the base planner does without torch.

    Raises:
        UserError: as `open_checkpoint`, or `open_light_base`.
    """
    if name == BASE and settings.kind == "heads":
        from orchestai.planner.slots.light import open_light_base

        return open_light_base(settings, worker_cards(workers))
    from orchestai.planner.checkpoint import open_checkpoint

    return open_checkpoint(name, settings, workers)
