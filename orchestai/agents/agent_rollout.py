"""Episodes of agents: a workflow attempts tasks, several times each, and what was said is what is learned from."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from orchestai.agents.agent_factory import AgentFactory
from orchestai.agents.policies import Policies
from orchestai.agents.workflow import AgentWorkflow
from orchestai.config import RlConfig
from orchestai.tasks.task import Task
from orchestai.training.rl.rollouts.collector import Episodes
from orchestai.training.rl.rollouts.rollout import row_seed
from orchestai.training.rl.rollouts.turn_scoring import with_scores
from orchestai.types import Episode


@dataclass(frozen=True, eq=False)
class Attempts:
    """Attempts at some tasks, on their way."""

    tasks: Sequence[Task]
    job: asyncio.Task[list[list[Episode]]]
    began: float


class AgentRollout:
    """Lets a workflow attempt tasks (a `Collector`).

    Args:
        concurrency: attempts at a time.
    """

    def __init__(
        self, workflow: AgentWorkflow, factory: AgentFactory, policies: Policies, config: RlConfig, *, concurrency: int
    ) -> None:
        self.weights = factory.weights
        self._workflow = workflow
        self._factory = factory
        self._policies = policies
        self._config = config
        self._concurrency = concurrency
        self._begun: list[Attempts] = []

    def begin(self, tasks: Sequence[Task], *, update: int) -> Attempts:
        """Start `num_generations` attempts at each task."""
        attempts = Attempts(tasks, asyncio.ensure_future(self._explore(tasks, update)), time.perf_counter())
        self._begun.append(attempts)
        return attempts

    async def finish(self, begun: Attempts) -> Episodes:
        """The episodes of `begin`, scored where learning needs more than what the sampler said."""
        try:
            groups = await begun.job
        finally:
            self._begun.remove(begun)
        seconds = {"acting": time.perf_counter() - begun.began}
        if self._config.algorithm == "PPO" or self._config.sampler_correction is not None:
            started = time.perf_counter()
            async with self.weights:
                groups = await asyncio.to_thread(self._scored, begun.tasks, groups)
            seconds["scoring"] = time.perf_counter() - started
        return Episodes(groups, seconds)

    async def explore(self, tasks: Sequence[Task], *, update: int) -> Episodes:
        """`begin` and `finish`."""
        return await self.finish(self.begin(tasks, update=update))

    async def exploit(self, tasks: Sequence[Task]) -> Episodes:
        """One attempt per task with the likeliest words; these episodes have no turns."""
        started = time.perf_counter()
        groups = await self._attempt(tasks, 1, 0.0, lambda task, attempt: 0)
        kept = [[_without_turns(episode) for episode in group] for group in groups]
        return Episodes(kept, {"acting": time.perf_counter() - started})

    async def sync(self, versions: Mapping[str, int]) -> dict[str, float]:
        """See `Collector.sync`."""
        return await self._factory.sync(versions)

    async def stop(self) -> None:
        """Attempt no more; attempts that were not finished are lost."""
        jobs = [begun.job for begun in self._begun]
        for job in jobs:
            job.cancel()
        await asyncio.gather(*jobs, return_exceptions=True)
        await self._factory.close()

    async def _explore(self, tasks: Sequence[Task], update: int) -> list[list[Episode]]:
        config = self._config
        return await self._attempt(
            tasks,
            config.num_generations,
            config.temperature,
            lambda task, attempt: row_seed(config.seed, update, task.task_id, attempt),
        )

    async def _attempt(
        self, tasks: Sequence[Task], attempts: int, temperature: float, seed: Callable[[Task, int], int]
    ) -> list[list[Episode]]:
        """Every task's attempts, so many tasks at a time as `concurrency` allows."""
        room = asyncio.Semaphore(max(1, self._concurrency // attempts))

        async def group(task: Task) -> list[Episode]:
            async with room:
                agents = [
                    self._factory.context(task, seed=seed(task, k), attempt=k, temperature=temperature)
                    for k in range(attempts)
                ]
                return await self._workflow.run_group(task, agents)

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


def _without_turns(episode: Episode) -> Episode:
    return replace(episode, trajectories=tuple(replace(t, turns=()) for t in episode.trajectories))
