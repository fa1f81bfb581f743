"""Plans and executes tasks and logs each execution; an interrupted collection goes on where it stopped."""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, TypeAlias

from orchestai.errors import UserError
from orchestai.execution.log import ExecutionLog
from orchestai.execution.record import ExecutionRecord
from orchestai.execution.result import JudgedExecution
from orchestai.execution.running_workflow import JudgingExecutor
from orchestai.outcome import UnscorableCounts
from orchestai.planner.base import Plan, Planner
from orchestai.progress import open_progress
from orchestai.tasks.task import Task

_FLUSHED_AT_ONCE = 32
"""Executions that a loss of power may cost; the process may end at any time."""

Job: TypeAlias = tuple[Task, int]
"""A task and the index of the repetition."""


@dataclass
class Collected:
    """How a collection stands.

    Attributes:
        total: executions asked for.
        continued: of those, logged by earlier runs.
        executed: by this run.
        succeeded: of both, those whose answer has the full score.
        cost_usd: of both, of workers and planner.
        decomposed: of both, those of tasks without a reference decomposition, by who decomposed them.
        outcomes: of this run, the unscorable ones by reason.
        problems: lines of the earlier log that could not be read.
    """

    total: int
    continued: int = 0
    executed: int = 0
    succeeded: int = 0
    cost_usd: float = 0.0
    decomposed: Counter[str] = field(default_factory=Counter)
    outcomes: UnscorableCounts = field(default_factory=UnscorableCounts)
    problems: list[str] = field(default_factory=list)

    @property
    def unscorable(self) -> int:
        return self.outcomes.unscorable

    @property
    def success_rate(self) -> float:
        """Among all executions, of this run and before, that could be judged."""
        return self.succeeded / max(self.continued + self.executed - self.unscorable, 1)

    def add(self, record: ExecutionRecord, *, logged: bool = False) -> None:
        """Count an execution of this run, or one that an earlier run logged."""
        if logged:
            self.continued += 1
        else:
            self.executed += 1
            self.outcomes.add(record.judgment)
        self.succeeded += record.success
        self.decomposed.update([record.decomposed_by] if record.decomposed_by else [])
        self.cost_usd += record.cost + (record.planning.cost_usd if record.planning else 0.0)


@dataclass(frozen=True)
class Collection:
    """What is to be collected.

    Attributes:
        num_executions: (task, repetition) pairs; all tasks come once, in an order drawn with `seed`, before any again.
        planner: what the log calls the planner.
        pool: names of the workers, in the order in which planners number them.
        unscorable_limit: the largest share of the executions that may be unscorable.
    """

    tasks: Sequence[Task]
    num_executions: int
    planner: str
    pool: Sequence[str]
    seed: int = 0
    unscorable_limit: float = 0.2

    def jobs(self) -> list[Job]:
        order = random.Random(self.seed).sample(list(self.tasks), len(self.tasks))
        return [(order[i % len(order)], i // len(order)) for i in range(self.num_executions)]


async def collect(
    asked: Collection,
    planner_for: Callable[[int], Planner],
    executor: JudgingExecutor,
    log: ExecutionLog,
    *,
    reward: Callable[[JudgedExecution], float | None] | None = None,
    progress: Callable[[Collected], None] | None = None,
) -> Collected:
    """Execute plans for the tasks and log each execution as it finishes.

    Pairs that the log's directory already holds for this planner are skipped, unless they were unscorable. Planning
    runs beside the executions.

    Args:
        planner_for: the planner of a repetition (a random planner draws anew for each).
        reward: of an execution, for the log; None where there is none.
        progress: called before the first execution, and after each.
    """
    if not asked.tasks:
        raise UserError("no tasks to collect from; choose another suite or split")
    contents = log.read()
    done = {
        (record.suite, record.task_id, record.repetition): record
        for record in contents.records
        if record.planner == asked.planner and record.outcome == "scored"
    }
    jobs = asked.jobs()
    missing = []
    state = Collected(total=len(jobs), problems=contents.problems)
    for task, repetition in jobs:
        if (logged := done.get((task.suite, task.task_id, repetition))) is not None:
            state.add(logged, logged=True)
        else:
            missing.append((task, repetition))
    if progress is not None:
        progress(state)
    size = executor.config.concurrency
    slots = asyncio.Semaphore(size)
    of_repetition = [list(jobs) for _, jobs in groupby(missing, key=lambda job: job[1])]
    batches = [jobs[start : start + size] for jobs in of_repetition for start in range(0, len(jobs), size)]
    running: set[asyncio.Task[None]] = set()

    async def run(task: Task, repetition: int, plan: Plan) -> None:
        try:
            about: dict[str, Any] = {
                "planner": asked.planner,
                "pool": asked.pool,
                "repetition": repetition,
                "planning": plan.usage,
            }
            if plan.workflow is None:
                record = ExecutionRecord.from_failed_plan(plan.error, task, fault=plan.fault, **about)
            else:
                execution = await executor.execute(task, plan.workflow, sample=repetition)
                worth = None if reward is None else reward(execution)
                record = ExecutionRecord.from_execution(execution, task, reward=worth, **about)
                record = record.model_copy(update={"decomposed_by": plan.decomposed_by})
            state.add(record)
            log.append(record, flush=state.executed % _FLUSHED_AT_ONCE == 0)
            if progress is not None:
                progress(state)
            state.outcomes.check(asked.unscorable_limit, "executions", planned=len(missing))
        finally:
            slots.release()

    try:
        for batch in batches:
            planner = planner_for(batch[0][1])
            plans = await asyncio.to_thread(planner.plan, [task for task, _ in batch])
            for (task, repetition), plan in zip(batch, plans, strict=True):
                await slots.acquire()
                _raise_first(running)
                running.add(asyncio.ensure_future(run(task, repetition, plan)))
        if running:
            await asyncio.wait(running, return_when=asyncio.FIRST_EXCEPTION)
        _raise_first(running)
    finally:
        for job in running:
            job.cancel()
        await asyncio.gather(*running, return_exceptions=True)
        if state.executed:
            log.flush()
    return state


@contextmanager
def progress_bar(total: int) -> Iterator[Callable[[Collected], None]]:
    """A progress line with rate, success, cost and unscorable share; gives what `collect` calls."""
    with open_progress("collect") as bar:

        def show(state: Collected) -> None:
            done = state.continued + state.executed
            if not bar.tasks:
                bar.add_task("collect", total=total, completed=done, status="")
            [line] = bar.tasks
            rate = f"{line.speed:.1f}/s  " if line.speed else ""
            unscorable = f"  unscorable {state.unscorable / state.executed:.0%}" if state.unscorable else ""
            status = f"{rate}success {state.success_rate:.0%}  {state.cost_usd:.4f} USD{unscorable}"
            bar.update(line.id, completed=done, status=status)

        yield show


def _raise_first(running: set[asyncio.Task[None]]) -> None:
    for job in running:
        if job.done():
            job.result()
