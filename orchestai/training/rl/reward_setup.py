"""Opens the reward of a run: with the reference that is known, or one that is measured."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import cycle, islice
from typing import TypeAlias

from accelerate import Accelerator

from orchestai.config import RewardsConfig, WorkersConfig
from orchestai.config.rl import RewardWeights
from orchestai.errors import InfrastructureError, UserError
from orchestai.execution.reward import Reference, RewardForm, reward_form, typical
from orchestai.outcome import Unscorable
from orchestai.planner.baselines import WholePlanner
from orchestai.tasks.task import Task
from orchestai.training.distributed import interleave, on_all, share
from orchestai.training.rl.rollouts.rollout import Execute
from orchestai.workers.pool import worker_cards

Run: TypeAlias = tuple[float, float] | Unscorable
"""An execution's cost in US dollars and latency in milliseconds, or why it could not be judged."""
EXECUTIONS = 32
"""How many are made to measure a reference, the workers in turn."""


@dataclass(frozen=True)
class Measurement:
    """How a reference is measured: what the pool's workers, in turn, cost and take for whole tasks.

    Each is asked as a plan of one subtask, so that the reference does not depend on the planner, which may not be able
    to plan yet.

    Attributes:
        tasks: to measure on.
        concurrency: executions at a time.
        accelerator: of the processes that share the work; None where this one is alone.
    """

    workers: WorkersConfig
    tasks: Sequence[Task]
    execute: Execute
    concurrency: int
    accelerator: Accelerator | None = None

    async def runs(self) -> list[Run]:
        workers = list(self.workers.pool)
        jobs = list(islice(zip(cycle(self.tasks), cycle(workers), strict=False), max(EXECUTIONS, len(workers))))
        slots = asyncio.Semaphore(self.concurrency)

        async def run(task: Task, worker: str) -> Run:
            (plan,) = WholePlanner(worker).plan([task])
            assert plan.workflow is not None
            async with slots:
                try:
                    execution = await self.execute(task, plan.workflow)
                except InfrastructureError as error:
                    return Unscorable.of(error)
            if isinstance(execution.outcome, Unscorable):
                return execution.outcome
            return execution.total_cost, execution.total_latency_ms

        if self.accelerator is None:
            return list(await asyncio.gather(*(run(*job) for job in jobs)))
        mine = asyncio.gather(*(run(*job) for job in share(jobs, self.accelerator)))
        return interleave(await on_all(self.accelerator, mine, "measuring the reference of the reward"))


async def open_reward(
    rewards: RewardsConfig, weights: RewardWeights, known: Reference | None, measurement: Measurement
) -> RewardForm:
    """The configured reward, with the known reference or else one that is measured now.

    A known reference of 0 US dollars says nothing about a pool that has prices, and gives way to what is measured.

    Args:
        known: of the logs or the checkpoint.

    Raises:
        UserError: none of the executions could be judged.
    """
    if known is not None and not known.cost_usd and _weighs_prices(rewards, measurement.workers):
        known = None
    form = reward_form(rewards, weights, known)
    if form is not None:
        return form
    runs = await measurement.runs()
    judged = [found for found in runs if not isinstance(found, Unscorable)]
    source = f"median of {len(judged)} executions of whole tasks, measured now"
    form = reward_form(rewards, weights, typical(judged, source))
    if form is None:
        reason = next(found.reason for found in runs if isinstance(found, Unscorable))
        raise UserError(
            "what an execution typically costs and how long it takes could not be measured, since none of "
            f"{len(runs)} could be judged; the first: {reason}. Mend that, or set rewards.cost_reference_usd and "
            "rewards.latency_reference_ms"
        )
    return form


def _weighs_prices(rewards: RewardsConfig, workers: WorkersConfig) -> bool:
    """Whether the pool has prices that the reward compares with a reference which is not configured."""
    asked = rewards.cost_weight > 0 and rewards.cost_reference_usd is None
    return asked and any(card.price_usd > 0 for card in worker_cards(workers))
