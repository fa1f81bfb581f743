"""Episodes: sample plans, execute them, and note what each decision and each plan was worth."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeAlias

import torch
from torch import Tensor

from orchestai.config import Phase2Config
from orchestai.errors import InfrastructureError, UserError
from orchestai.execution.result import JudgedExecution
from orchestai.execution.reward import RewardForm
from orchestai.outcome import Reward, Unscorable
from orchestai.planner.base import Plan
from orchestai.preference import Preference
from orchestai.tasks.task import Task
from orchestai.training.rl.algorithms.invalid_plans import rank_invalid
from orchestai.training.rl.microbatches import cut
from orchestai.training.rl.policy import PlannerPolicy
from orchestai.training.rl.rollouts.collector import Episodes
from orchestai.training.rl.rollouts.preferences import draw_preference
from orchestai.training.rl.rollouts.sampler import OwnSampler, Sampler
from orchestai.types import AnyDecisions, Episode, SampleSpec, TokenDecisions, Trajectory, Turn
from orchestai.workflow import Workflow

_METRICS = ("success", "tests", "cost_usd", "latency_ms", "checks")
"""What is known of every execution that could be judged, beside its reward."""
ROLE = "planner"


class Execute(Protocol):
    """Runs a workflow on a task; the same sample index gives the same execution (`Executor.execute`)."""

    def __call__(self, task: Task, workflow: Workflow, sample: int = 0) -> Awaitable[JudgedExecution]: ...


Drawn: TypeAlias = tuple[AnyDecisions, Tensor]
"""What was sampled, and (slots,) its log-probabilities."""


@dataclass(frozen=True, eq=False)
class _Planned:
    task: Task
    plan: Plan
    trajectories: tuple[Trajectory, ...]
    preference: Preference | None


class Draft:
    """Plans of some tasks while they are sampled: chunks of them, in order.

    Attributes:
        tasks: whose plans these are.
        seconds: spent so far, `sampling` and `scoring`.
    """

    def __init__(self, tasks: Sequence[Task], sample: Callable[[Draft], Coroutine[Any, Any, None]]) -> None:
        self.tasks = tasks
        self.seconds = {"sampling": 0.0, "scoring": 0.0}
        self.chunks: asyncio.Queue[list[_Planned] | None] = asyncio.Queue()
        self.job = asyncio.ensure_future(sample(self))

    async def next(self) -> list[_Planned] | None:
        """The next chunk; None when all have come.

        Raises:
            Exception: what went wrong in sampling.
        """
        planned = await self.chunks.get()
        if planned is None:
            await self.job
        return planned


class Rollout:
    """Turns tasks into episodes.

    Equal plans of one task are executed once and share the result. The next tasks are planned while the plans of
    earlier ones run.

    Args:
        reward: what an execution is worth; an `Unscorable` outcome stays one.
        concurrency: executions at a time.
        sampler: who draws the plans; by default, the planner.

    Attributes:
        weights: held while plans are drawn, and by whoever changes the planner's weights.
    """

    def __init__(
        self,
        planner: PlannerPolicy,
        execute: Execute,
        reward: RewardForm,
        config: Phase2Config,
        *,
        concurrency: int,
        sampler: Sampler | None = None,
    ) -> None:
        self._planner = planner
        self._execute = execute
        self._reward = reward
        self._config = config
        self._concurrency = concurrency
        self._sampler = sampler or OwnSampler(planner)
        self._drafts: list[Draft] = []
        self._synced: int | None = None
        self.weights = asyncio.Lock()

    async def sync(self, versions: Mapping[str, int]) -> dict[str, float]:
        """See `Collector.sync`."""
        policy_version = versions[ROLE]
        if policy_version == self._synced:
            return {}
        self._synced = policy_version
        return await self._sampler.sync(policy_version)

    def begin(self, tasks: Sequence[Task], *, update: int) -> Draft:
        """Start to sample `num_generations` plans per task, after those that were begun before."""
        per_chunk = max(1, self._config.micro_batch_size // self._config.num_generations)

        async def sample(chunk: Sequence[Task], seconds: dict[str, float]) -> list[_Planned]:
            return await self._sample(chunk, update, seconds)

        return self._draft(tasks, per_chunk, sample)

    async def finish(self, draft: Draft) -> Episodes:
        """Execute the plans of a draft as they come; in each group, what is invalid is worth least."""
        episodes = await self._run(draft, self._config.executions_per_plan)
        groups = [rank_invalid(group, self._reward.margin) for group in episodes.groups]
        return replace(episodes, groups=groups)

    async def explore(self, tasks: Sequence[Task], *, update: int) -> Episodes:
        """Sample plans and execute them."""
        return await self.finish(self.begin(tasks, update=update))

    async def exploit(self, tasks: Sequence[Task]) -> Episodes:
        """Take the best plan per task and execute it once; these episodes have no turns.

        With a `preference_share`, a group has a second episode, by a preference that is the task's own.
        """

        async def best(chunk: Sequence[Task], seconds: dict[str, float]) -> list[_Planned]:
            wanted: list[tuple[Task, Preference | None]] = []
            for task in chunk:
                wanted.append((task, None))
                if self._config.preference_share:
                    wanted.append((task, draw_preference(f"{self._config.seed}/validation/{task.task_id}", 1.0)))
            tasks, preferences = [task for task, _ in wanted], [preference for _, preference in wanted]
            drawn = await self._sampler.plan(tasks, None, preferences)
            return [_Planned(task, plan, (), at) for (task, at), plan in zip(wanted, drawn.plans, strict=True)]

        return await self._run(self._draft(tasks, self._config.micro_batch_size, best), 1)

    async def stop(self) -> None:
        """Sample no more; drafts that were not finished are lost."""
        jobs = [draft.job for draft in self._drafts]
        for job in jobs:
            job.cancel()
        await asyncio.gather(*jobs, return_exceptions=True)
        self._drafts.clear()

    def _draft(
        self,
        tasks: Sequence[Task],
        per_chunk: int,
        plan: Callable[[Sequence[Task], dict[str, float]], Awaitable[list[_Planned]]],
    ) -> Draft:
        before = [draft.job for draft in self._drafts]

        async def work(draft: Draft) -> None:
            try:
                if before:
                    await asyncio.wait(before)
                for start in range(0, len(tasks), per_chunk):
                    async with self.weights:
                        planned = await plan(tasks[start : start + per_chunk], draft.seconds)
                    draft.chunks.put_nowait(planned)
            finally:
                draft.chunks.put_nowait(None)

        draft = Draft(tasks, work)
        self._drafts.append(draft)
        return draft

    async def _run(self, draft: Draft, executions: int) -> Episodes:
        waited = 0.0
        started = time.perf_counter()
        slots = asyncio.Semaphore(self._concurrency)
        known: dict[tuple[str, Workflow, int], asyncio.Future[JudgedExecution]] = {}
        running: list[asyncio.Future[Episode]] = []
        try:
            while True:
                asked = time.perf_counter()
                planned = await draft.next()
                waited += time.perf_counter() - asked
                if planned is None:
                    break
                running += [asyncio.ensure_future(self._episode(one, executions, known, slots)) for one in planned]
            episodes = await asyncio.gather(*running)
        finally:
            unfinished: list[asyncio.Future[Any]] = [draft.job, *running, *known.values()]
            for job in unfinished:
                job.cancel()
            await asyncio.gather(*unfinished, return_exceptions=True)
            self._drafts.remove(draft)
        seconds = draft.seconds | {"executing": time.perf_counter() - started - waited}
        count = len(draft.tasks)
        each = len(episodes) // max(count, 1)
        return Episodes([list(episodes[i * each : (i + 1) * each]) for i in range(count)], seconds)

    async def _sample(self, tasks: Sequence[Task], update: int, seconds: dict[str, float]) -> list[_Planned]:
        config = self._config
        explore = frozenset(config.explore)
        repeated = [task for task in tasks for _ in range(config.num_generations)]
        share = config.preference_share
        drawn_for = {t.task_id: draw_preference(f"{config.seed}/{update}/{t.task_id}", share) for t in tasks}
        preferences = [drawn_for[task.task_id] for task in repeated]
        seeds = [
            row_seed(config.seed, update, task.task_id, g) for task in tasks for g in range(config.num_generations)
        ]
        started = time.perf_counter()
        found = await self._sampler.plan(repeated, SampleSpec(explore, config.temperature, seeds), preferences)
        sampled = time.perf_counter()
        drawn = {
            i: (p.decisions, p.logp.cpu())
            for i, p in enumerate(found.plans)
            if p.decisions is not None and p.logp is not None
        }
        turns = await asyncio.to_thread(self._turns, repeated, drawn, update, found.policy_version)
        seconds["sampling"] += sampled - started
        seconds["scoring"] += time.perf_counter() - sampled
        trajectories = {i: Trajectory(ROLE, ROLE, (self._measured(turn, found.plans[i]),)) for i, turn in turns.items()}
        return [
            _Planned(task, plan, (trajectories[i],) if i in trajectories else (), at)
            for i, (task, plan, at) in enumerate(zip(repeated, found.plans, preferences, strict=True))
        ]

    def _measured(self, turn: Turn, plan: Plan) -> Turn:
        of_tokens = isinstance(turn.decisions, TokenDecisions)
        limit = self._planner.max_slots if of_tokens else None
        return replace(turn, truncated=plan.truncated, token_limit=limit, text=plan.text)

    def _turns(
        self, tasks: Sequence[Task], drawn: Mapping[int, Drawn], update: int, policy_version: int
    ) -> dict[int, Turn]:
        """The sampled rows as turns, by number. A language model's tokens are scored only where that says more."""
        config = self._config
        correct = config.sampler_correction is not None
        turns, scored = {}, []
        for i, (decisions, logp) in drawn.items():
            _refuse_broken(logp, tasks[i], update)
            if correct or config.algorithm == "PPO" or not isinstance(decisions, TokenDecisions):
                scored.append(i)
            else:
                nothing = torch.zeros_like(logp)
                turns[i] = Turn(decisions, logp, nothing == 0, nothing, nothing.long() - 1, policy_version)
        for part in cut([drawn[i][0] for i in scored], self._planner.cost, config):
            rows = [scored[k] for k in part]
            with torch.no_grad():
                scores = self._planner.score(
                    [tasks[i] for i in rows],
                    [drawn[i][0] for i in rows],
                    explore=frozenset(config.explore),
                    temperature=config.temperature,
                )
            for k, i in enumerate(rows):
                decisions, sampled = drawn[i]
                slots = slice(len(sampled))
                # Copies: a view would take its whole batch along to other processes.
                logp, mask, value = (x[k, slots].cpu().clone() for x in (scores.logp, scores.mask, scores.value))
                if correct:
                    _refuse_broken(logp, tasks[i], update)
                turns[i] = Turn(
                    decisions,
                    logp if correct else sampled,
                    mask,
                    value,
                    scores.step[slots].cpu(),
                    policy_version,
                    sampled if correct else None,
                )
        return turns

    async def _episode(
        self,
        planned: _Planned,
        executions: int,
        known: dict[tuple[str, Workflow, int], asyncio.Future[JudgedExecution]],
        slots: asyncio.Semaphore,
    ) -> Episode:
        task, workflow = planned.task, planned.plan.workflow
        worth = self._reward.at(planned.preference)
        failure = worth.invalid()
        reward: Reward | Unscorable = failure
        metrics = {**dict.fromkeys(_METRICS, 0.0), **failure.contributions}
        valid = workflow is not None and len(workflow) <= self._config.max_steps_per_episode
        if workflow is not None and valid:
            for sample in range(executions):
                key = (task.task_id, workflow, sample)
                if key not in known:
                    known[key] = asyncio.ensure_future(self._in_turn(task, workflow, sample, slots))
            jobs = [known[task.task_id, workflow, sample] for sample in range(executions)]
            reward, metrics = _worth(worth, await asyncio.gather(*jobs))
        return Episode(
            task_id=task.task_id,
            group_id=task.task_id,
            trajectories=planned.trajectories,
            reward=reward,
            metrics=metrics,
            valid=valid,
            raw_valid=planned.plan.raw_valid,
            text=describe(workflow) if workflow is not None else planned.plan.error,
            preference=planned.preference,
        )

    async def _in_turn(self, task: Task, workflow: Workflow, sample: int, slots: asyncio.Semaphore) -> JudgedExecution:
        async with slots:
            try:
                return await self._execute(task, workflow, sample)
            except InfrastructureError as error:
                return JudgedExecution(
                    task_id=task.task_id, workflow=workflow, results=(), outcome=Unscorable.of(error)
                )


def _worth(form: RewardForm, executions: Sequence[JudgedExecution]) -> tuple[Reward | Unscorable, dict[str, float]]:
    """The mean reward and figures of the executions that could be judged, or why the first could not."""
    rewards = [form.of(run) for run in executions]
    judged = [(run, worth) for run, worth in zip(executions, rewards, strict=True) if isinstance(worth, Reward)]
    if not judged:
        return rewards[0], {}
    reward = Reward.mean([worth for _, worth in judged])
    metrics = {
        "success": [float(run.success) for run, _ in judged],
        "tests": [run.tests_passed / max(run.tests_total, 1) for run, _ in judged],
        "cost_usd": [run.total_cost for run, _ in judged],
        "latency_ms": [run.total_latency_ms for run, _ in judged],
        "checks": [float(run.checks_passed) for run, _ in judged],
    }
    return reward, {name: sum(figures) / len(figures) for name, figures in metrics.items()} | reward.contributions


def _refuse_broken(logp: Tensor, task: Task, update: int) -> None:
    if not torch.isfinite(logp).all():
        raise UserError(
            f"update {update + 1}: the planner's log-probabilities of its plan for task {task.task_id!r} are not "
            "finite, so its weights or its dtype are broken: go on from an earlier checkpoint with a lower "
            "training.phase2_rl.learning_rate, or compute in bfloat16 or float32"
        )


def row_seed(seed: int, update: int, task_id: str, generation: int) -> int:
    """The seed of one sample: the same whatever else is in its batch and whichever process draws it."""
    digest = hashlib.sha256(f"{seed}/{update}/{generation}/{task_id}".encode()).digest()
    return int.from_bytes(digest[:8], "big") >> 1


def describe(workflow: Workflow) -> str:
    """The plan on one line, e.g. `1 calculator "add 3" | 2 smol-greedy>smol-sample "reverse it" after 1`."""
    parts = []
    for subtask in workflow.subtasks:
        after = f" after {','.join(subtask.depends_on)}" if subtask.depends_on else ""
        parts.append(f'{subtask.id} {">".join(subtask.workers)} "{subtask.instruction}"{after}')
    return " | ".join(parts)
