"""Self-consistency: one worker asked several times, and the answer kept that most agree on.

Wang et al. 2022, "Self-Consistency Improves Chain of Thought Reasoning in Language Models" (arXiv 2203.11171).
"""

from __future__ import annotations

import asyncio

from orchestai.execution.executor import Executor
from orchestai.execution.judging import JudgingExecutor
from orchestai.execution.result import Execution
from orchestai.execution.running_workflow import NO_TERMS, Terms
from orchestai.rewards.voting import majority
from orchestai.tasks.task import Task
from orchestai.workers.prices import Prices
from orchestai.workflow import Workflow


class SelfConsistency(JudgingExecutor):
    """Runs every workflow `k` times, as further samples of each other, and keeps the answer of the majority.

    The samples are asked for together: all are paid, but the prompt's tokens once, and the slowest counts.

    Args:
        executor: what runs each.
        prices: of the worker.
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
