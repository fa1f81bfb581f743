"""A candidate beside the incumbent, and beside one worker asked repeatedly for as much money, on tasks kept aside."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager

from orchestai.config import Config, WorkersConfig
from orchestai.errors import UserError
from orchestai.evaluation.statistics import Interval, bootstrap_mean, mean, number, paired_difference
from orchestai.evaluation.systems.baselines import WHOLE
from orchestai.evaluation.systems.results import SystemRow
from orchestai.evaluation.systems.runner import Runner
from orchestai.evaluation.systems.sample_k import sample_k, strongest_sampler
from orchestai.execution.judging import JudgingExecutor
from orchestai.execution.runtime import Runtime, open_runtime
from orchestai.planner.base import Plan
from orchestai.planner.baselines.reference import WholePlanner
from orchestai.planner.checkpoint import reference_of
from orchestai.planner.serving import open_planner
from orchestai.serving.improvement.registry import Measured, Trial
from orchestai.tasks.task import Task
from orchestai.training.rl.reward_setup import Measurement, open_reward


class _Opened:
    """A checkpoint as a server would open it."""

    def __init__(self, plan: Callable[[Sequence[Task]], list[Plan]]) -> None:
        self._plan = plan

    def plan(self, tasks: Sequence[Task]) -> list[Plan]:
        return self._plan(tasks)


async def compare(config: Config, tasks: Sequence[Task], incumbent: str, candidate: str, runtime: Runtime) -> Trial:
    """Replay tasks with both planners, as they would be served.

    Args:
        tasks: that neither has learned from.
        incumbent, candidate: checkpoints.

    Raises:
        UserError: too much of it could not be judged.
    """
    execute, concurrency = runtime.executor.execute, config.execution.concurrency
    measurement = Measurement(config.workers, tasks, execute, concurrency)
    reward = await open_reward(config.rewards, config.training.phase2_rl, reference_of(incumbent), measurement)
    runner = Runner(runtime.executor, tasks, reward, config.tasks.unscorable_limit)
    rows = []
    for checkpoint in (incumbent, candidate):
        planner = await open_planner(checkpoint, config.planner, config.workers, runtime.pool)
        rows.append(await runner.row(checkpoint, _Opened(planner.plan), _nothing))
        runner.refuse_if_broken()
    before, after = rows
    success = after.values("success")
    try:
        sampling, how = await repeated_asking(config, runner, mean(after.values("cost_usd")))
    except UserError as error:  # which is no reason to lose the candidate
        sampling, how = None, f"repeated asking could not be measured: {error}"
    over_sampling = None if sampling is None else paired_difference(success, sampling.values("success"))
    return Trial(
        incumbent=_measured(bootstrap_mean(before.values("success"))),
        candidate=_measured(bootstrap_mean(success)),
        incumbent_usd=number(mean(before.values("cost_usd"))),
        candidate_usd=number(mean(after.values("cost_usd"))),
        difference=_measured(paired_difference(success, before.values("success"))),
        sampling=None if sampling is None else _measured(bootstrap_mean(sampling.values("success"))),
        sampling_usd=None if sampling is None else number(mean(sampling.values("cost_usd"))),
        over_sampling=None if over_sampling is None else _measured(over_sampling),
        sampling_how=how,
    )


async def repeated_asking(config: Config, runner: Runner, budget_usd: float) -> tuple[SystemRow | None, str]:
    """The strongest sampling worker asked again and again, for a mean cost of `budget_usd` US dollars a task.

    Returns:
        The row, or None; and how it came about, or why there is none.

    Raises:
        UserError: too much of it could not be judged.
    """
    name = strongest_sampler(config.workers)
    if name is None:
        return None, "no worker of workers.cascade samples, so nothing could be asked repeatedly"

    @asynccontextmanager
    async def other_workers(workers: WorkersConfig) -> AsyncIterator[JudgingExecutor]:
        async with open_runtime(workers, config.execution, config.sandbox) as runtime:
            yield runtime.executor

    whole = await runner.row(WHOLE + name, WholePlanner(name), _nothing)
    found = await sample_k(config.workers, whole, budget_usd, runner, other_workers, lambda row: _nothing)
    if found is None:
        return None, f"what {name} costs is not known, so nobody knows how often it may be asked"
    return found.row, f"{found.row.name}: {found.worker} asked {found.k} times"


def _measured(interval: Interval) -> Measured:
    return Measured.model_validate(interval.to_dict())


def _nothing() -> None:
    """Show no progress."""
