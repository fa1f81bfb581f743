"""The planner that a command line names."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Callable, Sequence

from orchestai.config import BASE, PlannerConfig, WorkersConfig
from orchestai.config.planner import NOTHING
from orchestai.errors import InfrastructureError, UserError
from orchestai.outcome import Unscorable
from orchestai.planner.base import Plan, Planner
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
from orchestai.planner.files import is_checkpoint
from orchestai.planner.language.plan_text import STEPS, TASK, parse_plan
from orchestai.tasks.task import Task
from orchestai.workers.base import WorkerCard, WorkerError
from orchestai.workers.generation import Generator, Prompt, SamplingParams
from orchestai.workers.pool import WorkerPool, worker_cards
from orchestai.workers.prices import Prices, most_tokens, planner_prices
from orchestai.workflow import WorkflowError

_PREFILL = '{"subtasks": ['
_MAX_NEW_TOKENS = 768
_END = "]}\n\n"
"""After a plan that is written in few lines; a blank line within one ends nothing."""


class FewShotPlanner:
    """Asks a language model for each plan; what it writes is a plan or an error, never mended beyond cutting it short.

    What it was asked and paid is the plan's `usage`. Where it could not be asked, the plan has a `fault`.

    Create it in the event loop that the generator runs in. `plan` blocks, so inside that loop call it as
    `await asyncio.to_thread(planner.plan, tasks)`, or await `aplan`.
    """

    def __init__(
        self, generator: Generator, cards: Sequence[WorkerCard], config: PlannerConfig, prices: Prices
    ) -> None:
        self._generator = generator
        self._cards = tuple(cards)
        self._config = config
        self._prices = prices
        self._loop = asyncio.get_running_loop()

    def plan(self, tasks: Sequence[Task]) -> list[Plan]:
        """Plan from a thread other than the event loop's.

        Raises:
            RuntimeError: called in the event loop itself, which would wait for itself for ever.
        """
        try:
            here: asyncio.AbstractEventLoop | None = asyncio.get_running_loop()
        except RuntimeError:
            here = None
        if here is self._loop:
            raise RuntimeError("FewShotPlanner.plan blocks its own event loop; use asyncio.to_thread or aplan")
        return asyncio.run_coroutine_threadsafe(self.aplan(tasks), self._loop).result()

    def most_usd(self, task: Task) -> float:
        """What planning a task may cost, every try counted."""
        return self._generator.tries * self._prices.cost(most_tokens(self.prompt(task.instruction)), _MAX_NEW_TOKENS)

    async def aplan(self, tasks: Sequence[Task]) -> list[Plan]:
        """Plan all tasks concurrently."""
        return list(await asyncio.gather(*(self._plan(task) for task in tasks)))

    async def _plan(self, task: Task) -> Plan:
        prompt = self.prompt(task.instruction)
        params = SamplingParams(temperature=0.0, max_new_tokens=_MAX_NEW_TOKENS, stop=(_END,))
        try:
            completion = await self._generator.generate(prompt, params, 0)
        except InfrastructureError as error:
            return Plan(workflow=None, raw_valid=False, error=str(error), fault=Unscorable.of(error))
        except WorkerError as error:
            return Plan(workflow=None, raw_valid=False, error=str(error), usage=self._prices.paid(error.usage))
        usage = self._prices.paid(completion.usage)
        names = [card.name for card in self._cards]
        try:
            workflow = parse_plan(prompt.prefill + completion.text, task.instruction, names, self._config)
        except WorkflowError as error:
            return Plan(workflow=None, raw_valid=False, error=str(error), usage=usage)
        return Plan(workflow=workflow, raw_valid=True, usage=usage)

    def prompt(self, instruction: str) -> Prompt:
        """The workers, the types, one worked example, then `instruction`."""
        workers = "\n".join(f"- {card.name}: {card.text}" for card in self._cards)
        system = (
            "You split an instruction into subtasks. Reply with JSON alone. Each subtask has an id, an instruction "
            "copied word by word, a task_type, a worker and depends_on: the ids of the subtasks whose results it needs."
            f"\nTypes: {', '.join(self._config.task_types)}\nWorkers:\n{workers}"
        )
        types, cards = self._config.task_types, self._cards
        subtasks = (
            {
                "id": str(i + 1),
                "instruction": text,
                "task_type": types[-1] if parents else types[0],
                "worker": cards[i % len(cards)].name,
                "depends_on": parents,
            }
            for i, (text, parents) in enumerate(STEPS)
        )
        example = _PREFILL + ",\n".join(map(json.dumps, subtasks)) + "]}"
        messages = (("system", system), ("user", TASK), ("assistant", example), ("user", instruction))
        return Prompt(messages, prefill=_PREFILL)


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
    """The planner of a checkpoint, to plan and not to train; the base planner does without torch."""
    if name == BASE and settings.kind == "heads":
        from orchestai.planner.slots.onnx_planner import open_onnx_base

        return open_onnx_base(settings, worker_cards(workers))
    from orchestai.planner.checkpoint import open_checkpoint

    return open_checkpoint(name, settings, workers)
