"""The strongest sampling worker asked for the whole task several times, for as much money as a planner spends.

Programs are sampled until one passes the visible examples (sample-k-and-check); of texts the one is kept that most
agree on (self-consistency).
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import TypeAlias

from orchestai.config import WorkersConfig
from orchestai.evaluation.statistics import mean
from orchestai.evaluation.systems.baselines import SAMPLE_K, SELF_CONSISTENCY
from orchestai.evaluation.systems.runner import Runner, SystemRow
from orchestai.execution.result import Execution
from orchestai.execution.running_workflow import NO_TERMS, Executor, JudgingExecutor, Terms
from orchestai.planner.baselines import WholePlanner
from orchestai.rewards.answers import normalize_answer, tagged_answer
from orchestai.rewards.maths import answered_number, final_answer
from orchestai.rewards.scorers import MATHS, NUMERIC, canonical_name
from orchestai.tasks.task import Task
from orchestai.workers.prices import Prices, prices_of
from orchestai.workflow import Workflow


def majority(task: Task, answers: Sequence[str]) -> int:
    """Index of the first of the answers that most agree with; those that say nothing agree with nobody."""
    keys = [answer_key(task, answer) for answer in answers]
    votes = Counter(key for key in keys if key)
    return keys.index(max(votes, key=votes.__getitem__)) if votes else 0


def answer_key(task: Task, answer: str) -> str:
    """What an answer says, equal for answers that only differ in how they say it; empty where it says nothing."""
    name = canonical_name(task.scorer_name)
    if name == NUMERIC:
        number = answered_number(answer)
        return "" if number is None else str(number.normalize())
    if name == MATHS:
        return "".join(final_answer(answer).split())
    tagged = tagged_answer(answer)
    return normalize_answer(answer if tagged is None else tagged, task.suite)


class SelfConsistency(JudgingExecutor):
    """Runs every workflow `k` times, as further samples of each other, and keeps the answer of the majority.

    The samples are asked for together: all are paid, but the prompt's tokens once, and the slowest counts.
    """

    def __init__(self, executor: JudgingExecutor, k: int, prices: Prices) -> None:
        super().__init__(executor.pool, executor.sandbox, executor.config)
        self._k = k
        self._prices = prices

    async def run(self, task: Task, workflow: Workflow, sample: int = 0, terms: Terms = NO_TERMS) -> Execution:
        samples = range(sample * self._k, (sample + 1) * self._k)
        runs = await asyncio.gather(*(Executor.run(self, task, workflow, each, terms) for each in samples))
        kept = runs[majority(task, [run.answer for run in runs])]
        prompts = [attempt.prompt_tokens for run in runs[1:] for step in run.results for attempt in step.attempts]
        together = {
            "total_cost": sum(run.total_cost for run in runs) - self._prices.per_mtok_in * sum(prompts) / 1e6,
            "total_latency_ms": max(run.total_latency_ms for run in runs),
            "fault": next((run.fault for run in runs if run.fault is not None), None),
        }
        return kept.model_copy(update=together)


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
