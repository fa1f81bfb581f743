"""Sample-k-and-check: the strongest sampling worker asked for the whole task, for as much money as a planner spends."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import TypeAlias

from orchestai.config import Config, WorkersConfig
from orchestai.evaluation.statistics import mean
from orchestai.evaluation.systems.baselines import SAMPLE_K
from orchestai.evaluation.systems.results import Row
from orchestai.evaluation.systems.runner import Runner
from orchestai.execution.executor import Executor
from orchestai.execution.reward import RewardForm
from orchestai.planner.baselines.reference import WholePlanner
from orchestai.tasks.task import Task

OpenExecutor: TypeAlias = Callable[[WorkersConfig], AbstractAsyncContextManager[Executor]]
"""Opens an executor on other workers than those of the pool."""

_TRIES = 4
_CLOSE_ENOUGH = 1.1
"""A row may cost so many times the budget."""
_MOST_SAMPLES = 64


@dataclass(frozen=True)
class SampleK:
    """The row and how it came about: `worker` drawing up to `k` samples per task, for a budget per task."""

    row: Row
    worker: str
    k: int
    budget_usd: float


def strongest_sampler(config: Config) -> str | None:
    """The last worker of the cascade that can answer the same request in more than one way."""
    return next((name for name in reversed(config.workers.cascade) if config.workers.pool[name].temperature > 0), None)


async def sample_k(
    config: Config,
    asked_whole: Row,
    budget_usd: float,
    tasks: Sequence[Task],
    open_executor: OpenExecutor,
    start: Callable[[str], Callable[[], None]],
    reward: RewardForm,
) -> SampleK | None:
    """Find the number of samples whose measured mean cost is the budget or little more, and run it.

    The number is corrected in proportion to the cost measured with the one before, since samples share prompts and
    sampling ends early where one passes. If no number tried reaches the budget, the largest counts.

    Args:
        asked_whole: the row of `strongest_sampler` asked for the whole task as it is configured.
        budget_usd: the planner's mean cost per task.
        start: begins a progress bar of that name and gives what to call after each task.
        reward: what an execution is worth.

    Returns:
        None where no worker samples, or a cost is not known or zero.
    """
    name = strongest_sampler(config)
    cost = mean(asked_whole.values("cost_usd"))
    if name is None or not math.isfinite(budget_usd) or not cost > 0:
        return None
    k = next_k(config.workers.pool[name].samples, cost, budget_usd)
    tried: dict[int, tuple[float, Row]] = {}
    while k not in tried and len(tried) < _TRIES:
        worker = config.workers.pool[name].model_copy(update={"samples": k})
        workers = config.workers.model_copy(update={"pool": {SAMPLE_K: worker}, "cascade": ()})
        async with open_executor(workers) as executor:
            row = await Runner(executor, config, tasks, reward).row(
                SAMPLE_K, WholePlanner(SAMPLE_K), start(f"{SAMPLE_K}, k={k}")
            )
        cost = mean(row.values("cost_usd"))
        tried[k] = cost, row
        if not cost > 0 or budget_usd <= cost <= _CLOSE_ENOUGH * budget_usd:
            break
        k = next_k(k, cost, budget_usd)
    enough = [k for k, (spent, _) in tried.items() if spent >= budget_usd]
    k = min(enough) if enough else max(tried)
    return SampleK(tried[k][1], name, k, budget_usd)


def next_k(k: int, cost_usd: float, budget_usd: float) -> int:
    """How many samples the budget buys where `k` samples cost `cost_usd`, rounded up; at least 1."""
    return min(_MOST_SAMPLES, max(1, math.ceil(k * budget_usd / cost_usd - 1e-9)))
