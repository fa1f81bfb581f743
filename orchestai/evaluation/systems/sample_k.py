"""The strongest sampling worker asked for the whole task several times, for as much money as a planner spends.

Programs are sampled until one passes the visible examples (sample-k-and-check); of texts the one is kept that most
agree on (self-consistency).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import TypeAlias

from orchestai.config import WorkersConfig
from orchestai.evaluation.statistics import mean
from orchestai.evaluation.systems.baselines import SAMPLE_K, SELF_CONSISTENCY
from orchestai.evaluation.systems.results import SystemRow
from orchestai.evaluation.systems.runner import Runner
from orchestai.evaluation.systems.self_consistency import SelfConsistency
from orchestai.execution.judging import JudgingExecutor
from orchestai.planner.baselines.reference import WholePlanner
from orchestai.workers.prices import prices_of

OpenExecutor: TypeAlias = Callable[[WorkersConfig], AbstractAsyncContextManager[JudgingExecutor]]
"""Opens an executor on other workers than those of the pool."""

_TRIES = 4
_CLOSE_ENOUGH = 1.1
"""A row may cost so many times the budget."""
_MOST_SAMPLES = 64


@dataclass(frozen=True)
class SampleK:
    """The row and how it came about: `worker` drawing up to `k` samples per task, for a budget per task."""

    row: SystemRow
    worker: str
    k: int
    budget_usd: float


def strongest_sampler(workers: WorkersConfig) -> str | None:
    """The last worker of the cascade that can answer the same request in more than one way."""
    return next((name for name in reversed(workers.cascade) if workers.pool[name].temperature > 0), None)


async def sample_k(
    workers: WorkersConfig,
    asked_whole: SystemRow,
    budget_usd: float,
    runner: Runner,
    open_executor: OpenExecutor,
    start: Callable[[str], Callable[[], None]],
) -> SampleK | None:
    """Find the number of samples whose measured mean cost is the budget or little more, and run it.

    The number is corrected in proportion to the cost measured with the one before, since samples share prompts and
    sampling ends early where one passes. If no number tried reaches the budget, the largest counts.

    Args:
        asked_whole: the row of `strongest_sampler` asked for the whole task as it is configured.
        budget_usd: the planner's mean cost per task.
        runner: of the other rows.
        start: begins a progress bar of that name and gives what to call after each task.

    Returns:
        None where no worker samples, or a cost is not known or zero.
    """
    name = strongest_sampler(workers)
    cost = mean(asked_whole.values("cost_usd"))
    if name is None or not math.isfinite(budget_usd) or not cost > 0:
        return None
    texts = not any(task.wants_program for task in runner.tasks)
    label = SELF_CONSISTENCY if texts else SAMPLE_K
    k = next_k(1 if texts else workers.pool[name].samples, cost, budget_usd)
    tried: dict[int, tuple[float, SystemRow]] = {}
    while k not in tried and len(tried) < _TRIES:
        worker = workers.pool[name].model_copy(update={"samples": 1 if texts else k})
        alone = workers.model_copy(update={"pool": {SAMPLE_K: worker}, "cascade": ()})
        async with open_executor(alone) as executor:
            asked = SelfConsistency(executor, k, prices_of(worker)) if texts else executor
            row = await runner.beside(asked).row(label, WholePlanner(SAMPLE_K), start(f"{label}, k={k}"))
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
