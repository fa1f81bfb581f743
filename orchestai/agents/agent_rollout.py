"""Episodes of agents: a workflow attempts tasks, several times each, and what was said is what is learned from."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from orchestai.agents.agent_factory import AgentFactory
from orchestai.agents.policies import Policies
from orchestai.agents.workflow import AgentWorkflow
from orchestai.config import RlConfig
from orchestai.execution.reward import invalid_margin
from orchestai.tasks.task import Task
from orchestai.training.rl.algorithms.invalid_plans import rank_invalid
from orchestai.training.rl.rollouts.collector import Episodes
from orchestai.training.rl.rollouts.rollout import row_seed
from orchestai.training.rl.rollouts.turn_scoring import with_scores
from orchestai.types import Episode


class AgentRollout:
    """Lets a workflow attempt tasks (a `Collector`).

    Args:
        concurrency: attempts at a time.
    """

    def __init__(
        self, workflow: AgentWorkflow, factory: AgentFactory, policies: Policies, config: RlConfig, *, concurrency: int
    ) -> None:
        self._workflow = workflow
        self._factory = factory
        self._policies = policies
        self._config = config
        self._concurrency = concurrency

    async def explore(self, tasks: Sequence[Task], *, update: int) -> Episodes:
        """`num_generations` attempts at each task, scored where learning needs more than what the sampler said."""
        config = self._config
        started = time.perf_counter()
        groups = await self._attempt(
            tasks,
            config.num_generations,
            config.temperature,
            lambda task, attempt: row_seed(config.seed, update, task.task_id, attempt),
        )
        seconds = {"acting": time.perf_counter() - started}
        if config.algorithm == "PPO" or config.sampler_correction is not None:
            started = time.perf_counter()
            groups = await asyncio.to_thread(self._scored, tasks, groups)
            seconds["scoring"] = time.perf_counter() - started
        return Episodes(groups, seconds)

    async def exploit(self, tasks: Sequence[Task]) -> Episodes:
        """One attempt per task with the likeliest words; these episodes have no turns."""
        started = time.perf_counter()
        groups = await self._attempt(tasks, 1, 0.0, lambda task, attempt: 0)
        kept = [
            [
                replace(episode, trajectories=tuple(replace(t, turns=()) for t in episode.trajectories))
                for episode in group
            ]
            for group in groups
        ]
        return Episodes(kept, {"acting": time.perf_counter() - started})

    async def sync(self, versions: Mapping[str, int]) -> dict[str, float]:
        """See `Collector.sync`."""
        return await self._factory.sync(versions)

    async def stop(self) -> None:
        """Attempt no more."""
        await self._factory.close()

    async def _attempt(
        self, tasks: Sequence[Task], attempts: int, temperature: float, seed: Callable[[Task, int], int]
    ) -> list[list[Episode]]:
        """Every task's attempts, so many tasks at a time as `concurrency` allows.

        Those that spent their budget are worth less than all others at the task.
        """
        room = asyncio.Semaphore(max(1, self._concurrency // attempts))

        async def group(task: Task) -> list[Episode]:
            async with room:
                agents = [
                    self._factory.context(task, seed=seed(task, k), attempt=k, temperature=temperature)
                    for k in range(attempts)
                ]
                return rank_invalid(await self._workflow.run_group(task, agents), invalid_margin(1.0))

        jobs = [asyncio.ensure_future(group(task)) for task in tasks]
        try:
            return await asyncio.gather(*jobs)
        finally:
            for job in jobs:
                job.cancel()
            await asyncio.gather(*jobs, return_exceptions=True)

    def _scored(self, tasks: Sequence[Task], groups: Sequence[Sequence[Episode]]) -> list[list[Episode]]:
        by_id = {task.task_id: task for task in tasks}
        flat = with_scores([e for group in groups for e in group], by_id, self._policies.learning, self._config)
        episodes = iter(flat)
        return [[next(episodes) for _ in group] for group in groups]
