"""Runs the plans of many planners on the same tasks; equal plans of one task run once."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from orchestai.evaluation.statistics import Values, bootstrap_mean, mean, number, proportion
from orchestai.execution.log import ExecutionLog
from orchestai.execution.record import ExecutionRecord
from orchestai.execution.result import JudgedExecution
from orchestai.execution.reward import RewardForm, invalid_reward
from orchestai.execution.running_workflow import JudgingExecutor
from orchestai.outcome import Unscorable, UnscorableCounts, refuse_lasting
from orchestai.planner.base import Plan, Planner
from orchestai.storage.artifacts import fingerprint
from orchestai.tasks.task import Task
from orchestai.workers.base import Usage
from orchestai.workflow import Workflow


@dataclass(frozen=True)
class Result:
    """What one plan gave on one task; numbers are NaN where the execution is unscorable, for this `reason`.

    Attributes:
        success: 1 for the full score, else 0.
        reward: phase 2's reward; of an invalid plan less than of any valid one (`rank_invalid`).
        cost_usd, latency_ms: of the plan and its execution.
        raw_valid: whether the plan was a DAG before repair.
        workflow: None where the planner gave no valid plan, which counts as a failure that costs what planning did.
    """

    success: float
    reward: float
    cost_usd: float
    latency_ms: float
    raw_valid: bool
    workflow: Workflow | None
    reason: str = ""


@dataclass(frozen=True)
class SystemRow:
    """One way of solving the tasks, with its result on each."""

    name: str
    results: tuple[Result, ...]

    def values(self, field: str) -> Values:
        """(n,) array of a numeric field of `Result`."""
        return np.array([getattr(result, field) for result in self.results], dtype=np.float64)

    def to_dict(self) -> dict[str, str]:
        """Numbers of each task, in the order of the tasks."""
        measured = ("success", "reward", "cost_usd", "latency_ms")
        return {field: " ".join(f"{value:.7g}" for value in self.values(field)) for field in measured}

    @property
    def unscorable(self) -> int:
        return sum(bool(result.reason) for result in self.results)


@dataclass(frozen=True)
class RowSummary:
    """A row's figures; means are over the tasks that could be judged, and None where there are none.

    Attributes:
        n: tasks.
        success: share of tasks with the full score (all hidden tests pass); `success_ci` is Wilson's 95 % interval.
        reward: phase 2's reward; `reward_ci` is the 95 % bootstrap interval.
        cost_usd, latency_ms: per task; the latency is the critical path.
        validity: share of plans that are valid workflows; `raw_validity` before repair.
        unscorable: share of tasks that could not be judged.
    """

    name: str
    suite: str
    n: int
    success: float | None
    success_ci: tuple[float | None, float | None]
    reward: float | None
    reward_ci: tuple[float | None, float | None]
    cost_usd: float | None
    latency_ms: float | None
    validity: float
    raw_validity: float
    unscorable: float


def summarize(row: SystemRow, suite: str) -> RowSummary:
    n = len(row.results)
    success, reward = proportion(row.values("success")), bootstrap_mean(row.values("reward"))
    return RowSummary(
        name=row.name,
        suite=suite,
        n=n,
        success=number(success.mean),
        success_ci=(number(success.low), number(success.high)),
        reward=number(reward.mean),
        reward_ci=(number(reward.low), number(reward.high)),
        cost_usd=number(mean(row.values("cost_usd"))),
        latency_ms=number(mean(row.values("latency_ms"))),
        validity=sum(result.workflow is not None for result in row.results) / n,
        raw_validity=sum(result.raw_valid for result in row.results) / n,
        unscorable=row.unscorable / n,
    )


def rank_invalid(rows: Sequence[SystemRow], margin: float) -> list[SystemRow]:
    """The rows, in which a plan that is invalid is worth less, by a margin, than all valid ones for the same task."""
    per_task = []
    for results in zip(*(row.results for row in rows), strict=True):
        valid = [result.reward for result in results if result.workflow is not None and not math.isnan(result.reward)]
        per_task.append(
            [
                replace(result, reward=invalid_reward(result.reward, margin, valid))
                if result.workflow is None
                else result
                for result in results
            ]
        )
    return [SystemRow(row.name, tuple(results)) for row, results in zip(rows, zip(*per_task, strict=True), strict=True)]


class Runner:
    """Executes plans and remembers what it executed; `unscorable_limit` is the largest share of unscorable ones."""

    def __init__(
        self, executor: JudgingExecutor, tasks: Sequence[Task], reward: RewardForm, unscorable_limit: float = 0.2
    ) -> None:
        self.tasks = tuple(tasks)
        self._reward = reward
        self.executor = executor
        self._unscorable_limit = unscorable_limit
        self._slots = asyncio.Semaphore(executor.config.concurrency)
        self._known: dict[str, asyncio.Task[JudgedExecution]] = {}
        self._faults: list[Unscorable] = []

    def beside(self, executor: JudgingExecutor) -> Runner:
        """The same tasks and reward with another executor."""
        return Runner(executor, self.tasks, self._reward, self._unscorable_limit)

    async def row(self, name: str, planner: Planner, advance: Callable[[], None]) -> SystemRow:
        """Plan all tasks, run the plans and call `advance` after each."""
        plans = await asyncio.to_thread(planner.plan, self.tasks)
        return await self.run(name, plans, advance)

    async def run(self, name: str, plans: Sequence[Plan], advance: Callable[[], None]) -> SystemRow:
        """Run one plan per task."""

        async def one(task: Task, plan: Plan) -> Result:
            result = await self._result(task, plan)
            advance()
            return result

        jobs = [asyncio.ensure_future(one(task, plan)) for task, plan in zip(self.tasks, plans, strict=True)]
        try:
            return SystemRow(name, tuple(await asyncio.gather(*jobs)))
        finally:
            for job in (*jobs, *self._known.values()):
                job.cancel()

    async def _result(self, task: Task, plan: Plan) -> Result:
        usage = plan.usage or Usage()
        if plan.fault is not None:
            refuse_lasting(plan.fault, "plans")
            self._faults.append(plan.fault)
            return _unjudged(plan, plan.fault)
        if plan.workflow is None:
            floor = self._reward.invalid().total
            return Result(0.0, floor, usage.cost_usd, usage.latency_ms, plan.raw_valid, None)
        key, workflow = _key(task, plan.workflow), plan.workflow

        async def in_turn() -> JudgedExecution:
            async with self._slots:
                execution = await self.executor.execute(task, workflow)
            refuse_lasting(execution.outcome, "executions")
            return execution

        if key not in self._known:
            self._known[key] = asyncio.ensure_future(in_turn())
        execution = await self._known[key]
        together = {
            "total_cost": execution.total_cost + usage.cost_usd,
            "total_latency_ms": execution.total_latency_ms + usage.latency_ms,
        }
        execution = execution.model_copy(update=together)
        worth = self._reward.of(execution)
        if isinstance(worth, Unscorable):
            return _unjudged(plan, worth)
        return Result(
            success=float(execution.success),
            reward=worth.total,
            cost_usd=execution.total_cost,
            latency_ms=execution.total_latency_ms,
            raw_valid=plan.raw_valid,
            workflow=plan.workflow,
        )

    def write(self, log: ExecutionLog, plans: Mapping[str, Sequence[Plan]], pool: Sequence[str]) -> None:
        """Log the executions of plans that were run, by the names of their planners."""
        for planner, some in plans.items():
            for task, plan in zip(self.tasks, some, strict=True):
                ran = None if plan.workflow is None else self._known.get(_key(task, plan.workflow))
                if ran is not None:
                    execution, usage = ran.result(), plan.usage
                    worth = self._reward.of(execution)
                    log.append(
                        ExecutionRecord.from_execution(
                            execution,
                            task,
                            planner=planner,
                            pool=pool,
                            reward=None if isinstance(worth, Unscorable) else worth.total,
                            planning=usage,
                        )
                    )
                elif plan.error:
                    log.append(
                        ExecutionRecord.from_failed_plan(
                            plan.error, task, planner=planner, pool=pool, planning=plan.usage, fault=plan.fault
                        )
                    )

    def refuse_if_broken(self) -> None:
        """Stop where figures would be about the infrastructure, not about plans."""
        counts = UnscorableCounts([*self._faults, *(job.result().outcome for job in self._known.values())])
        counts.check(self._unscorable_limit, "executions")


def _key(task: Task, workflow: Workflow) -> str:
    return fingerprint([task.task_id, workflow.to_dict()])


def _unjudged(plan: Plan, why: Unscorable) -> Result:
    return Result(math.nan, math.nan, math.nan, math.nan, plan.raw_valid, plan.workflow, why.reason)
