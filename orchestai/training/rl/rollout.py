"""Episodes: who draws the plans, how they are executed, and what each decision and each plan was worth."""

from __future__ import annotations

import asyncio
import hashlib
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import torch
from accelerate import Accelerator
from accelerate.utils import broadcast_object_list
from torch import Tensor

from orchestai.config import LanguageConfig, Phase2Config
from orchestai.errors import InfrastructureError, UserError
from orchestai.execution.result import JudgedExecution
from orchestai.execution.reward import RewardForm
from orchestai.lm.backends.base import SampleSettings
from orchestai.lm.backends.canary import CanaryProbe
from orchestai.lm.backends.synced import Processes, SyncedBackend, SyncedPolicy, open_backend
from orchestai.outcome import Reward, Unscorable
from orchestai.planner.base import Plan, TrainablePlanner
from orchestai.planner.language.planner import LanguagePlanner
from orchestai.planner.slots.decisions import SlotLayout
from orchestai.tasks.task import Task
from orchestai.training.distributed import on_all
from orchestai.training.rl.advantages import rank_invalid
from orchestai.training.rl.batch import cut
from orchestai.training.rl.policy import Episodes, PlannerPolicy
from orchestai.types import AnyDecisions, Decisions, Episode, SampleSpec, TokenDecisions, Trajectory, Turn
from orchestai.workflow import Workflow


@dataclass(frozen=True, eq=False)
class Drawn:
    """Plans in the order of their tasks, and the version of the weights that drew them."""

    plans: list[Plan]
    policy_version: int


class Sampler(Protocol):
    """Draws plans with weights of a known version; the caller never lets its two methods overlap."""

    async def plan(self, tasks: Sequence[Task], sample: SampleSpec | None) -> Drawn:
        """Sample plans, or take the best."""
        ...

    async def sync(self, policy_version: int) -> dict[str, float]:
        """Draw from the present weights from now on. All processes call it together.

        Returns:
            figures for reports.
        """
        ...


class OwnSampler:
    """The planner draws its own plans, in a thread."""

    def __init__(self, planner: TrainablePlanner) -> None:
        self._planner = planner
        self._version = -1

    async def plan(self, tasks: Sequence[Task], sample: SampleSpec | None) -> Drawn:
        version = self._version
        plans = await asyncio.to_thread(self._planner.plan, tasks, sample=sample)
        return Drawn(plans, version)

    async def sync(self, policy_version: int) -> dict[str, float]:
        self._version = policy_version
        return {}


class BackendSampler:
    """A backend writes the plans of a language planner."""

    def __init__(self, planner: LanguagePlanner, backend: SyncedBackend) -> None:
        self._planner = planner
        self._backend = backend
        self._version = -1

    async def plan(self, tasks: Sequence[Task], sample: SampleSpec | None) -> Drawn:
        instructions = [task.instruction for task in tasks]
        prompts, plans = self._planner.write_prompts(instructions)
        rows = sorted(prompts)
        settings = SampleSettings(0.0 if sample is None else sample.temperature, self._planner.max_slots)
        if not rows:
            return Drawn([plans[i] for i in range(len(tasks))], self._version)
        generation = await self._backend.generate(
            [prompts[i] for i in rows], [0 if sample is None else sample.seeds[i] for i in rows], settings
        )
        for i, completion in zip(rows, generation.completions, strict=True):
            plans[i] = self._planner.read(instructions[i], prompts[i], completion, sampled=sample is not None)
        return Drawn([plans[i] for i in range(len(tasks))], generation.policy_version)

    async def sync(self, policy_version: int) -> dict[str, float]:
        self._version = policy_version
        return await self._backend.sync(policy_version)


@asynccontextmanager
async def open_sampler(
    settings: LanguageConfig,
    planner: PlannerPolicy | LanguagePlanner,
    tasks: Sequence[Task],
    *,
    temperature: float,
    accelerator: Accelerator,
    output: Path,
) -> AsyncIterator[Sampler]:
    """The sampler of `planner.language.backend`; planners of other kinds draw their own plans.

    Args:
        tasks: the shortest of them is the canary's prompt.
        output: folder of the run.
    """
    if not isinstance(planner, LanguagePlanner) or settings.backend == "transformers":
        yield OwnSampler(planner)
        return
    prompts, refused = planner.write_prompts([min((task.instruction for task in tasks), key=len)])
    if refused:
        raise UserError(f"not even the shortest task can be planned: {refused[0].error}")
    backend = open_backend(
        settings,
        SyncedPolicy(
            planner.policy,
            "planner",
            settings.dtype,
            planner.config.language.lora,
            settings.max_prompt_tokens + settings.max_new_tokens,
        ),
        CanaryProbe(prompts[0], temperature),
        processes_of(accelerator),
        section="planner.language",
        sync_dir=output / "sync",
    )
    try:
        yield BackendSampler(planner, backend)
    finally:
        await backend.close()


def processes_of(accelerator: Accelerator) -> Processes:
    """What a backend must know of the run's processes; all of them call it together."""
    run: str = broadcast_object_list([uuid.uuid4().hex[:8]])[0]
    return Processes(
        accelerator.process_index,
        accelerator.num_processes,
        run,
        lambda work: on_all(accelerator, work, "handing over weights"),
    )


_METRICS = ("success", "tests", "open", "cost_usd", "latency_ms", "checks")
"""What is known of every execution that could be judged, beside its reward."""
ROLE = "planner"


class Execute(Protocol):
    """Runs a workflow on a task; the same sample index gives the same execution (`Executor.execute`)."""

    def __call__(self, task: Task, workflow: Workflow, sample: int = 0) -> Awaitable[JudgedExecution]: ...


_Sampled: TypeAlias = tuple[AnyDecisions, Tensor]
"""What was sampled, and (slots,) its log-probabilities."""


@dataclass(frozen=True, eq=False)
class _Planned:
    task: Task
    plan: Plan
    trajectories: tuple[Trajectory, ...]
    entropies: Mapping[str, float] = field(default_factory=dict)


class Rollout:
    """Turns tasks into episodes.

    Equal plans of one task are executed once and share the result. The next tasks are planned while the plans of
    earlier ones run.

    Args:
        reward: what an execution is worth; an `Unscorable` outcome stays one.
        concurrency: executions at a time.
        sampler: who draws the plans; by default, the planner.
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
        self._synced: int | None = None

    async def sync(self, versions: Mapping[str, int]) -> dict[str, float]:
        """See `Collector.sync`."""
        policy_version = versions[ROLE]
        if policy_version == self._synced:
            return {}
        self._synced = policy_version
        return await self._sampler.sync(policy_version)

    async def explore(self, tasks: Sequence[Task], *, update: int) -> Episodes:
        """Sample `num_generations` plans per task and execute them; in each group, what is invalid is worth least."""
        per_chunk = max(1, self._config.micro_batch_size // self._config.num_generations)

        async def sample(chunk: Sequence[Task], seconds: dict[str, float]) -> list[_Planned]:
            return await self._sample(chunk, update, seconds)

        episodes = await self._run(tasks, per_chunk, sample)
        return replace(episodes, groups=[rank_invalid(group, self._reward.margin) for group in episodes.groups])

    async def exploit(self, tasks: Sequence[Task]) -> Episodes:
        """Take the best plan per task and execute it; these episodes have no turns."""

        async def best(chunk: Sequence[Task], seconds: dict[str, float]) -> list[_Planned]:
            drawn = await self._sampler.plan(chunk, None)
            return [_Planned(task, plan, ()) for task, plan in zip(chunk, drawn.plans, strict=True)]

        return await self._run(tasks, self._config.micro_batch_size, best)

    async def _run(
        self,
        tasks: Sequence[Task],
        per_chunk: int,
        plan: Callable[[Sequence[Task], dict[str, float]], Awaitable[list[_Planned]]],
    ) -> Episodes:
        """Plan chunk after chunk; plans of the chunks before run meanwhile."""
        seconds = {"sampling": 0.0, "scoring": 0.0}
        waited = 0.0
        started = time.perf_counter()
        slots = asyncio.Semaphore(self._concurrency)
        known: dict[tuple[str, Workflow], asyncio.Future[JudgedExecution]] = {}
        running: list[asyncio.Future[Episode]] = []
        try:
            for start in range(0, len(tasks), per_chunk):
                asked = time.perf_counter()
                planned = await plan(tasks[start : start + per_chunk], seconds)
                waited += time.perf_counter() - asked
                running += [asyncio.ensure_future(self._episode(one, known, slots)) for one in planned]
            episodes = await asyncio.gather(*running)
        finally:
            unfinished: list[asyncio.Future[Any]] = [*running, *known.values()]
            for job in unfinished:
                job.cancel()
            await asyncio.gather(*unfinished, return_exceptions=True)
        seconds["executing"] = time.perf_counter() - started - waited
        each = len(episodes) // max(len(tasks), 1)
        return Episodes([list(episodes[i * each : (i + 1) * each]) for i in range(len(tasks))], seconds)

    async def _sample(self, tasks: Sequence[Task], update: int, seconds: dict[str, float]) -> list[_Planned]:
        config = self._config
        explore = frozenset(config.explore)
        repeated = [task for task in tasks for _ in range(config.num_generations)]
        seeds = [
            row_seed(config.seed, update, task.task_id, g) for task in tasks for g in range(config.num_generations)
        ]
        started = time.perf_counter()
        found = await self._sampler.plan(repeated, SampleSpec(explore, config.temperature, seeds))
        sampled = time.perf_counter()
        drawn = {
            i: (p.decisions, p.logp.cpu())
            for i, p in enumerate(found.plans)
            if p.decisions is not None and p.logp is not None
        }
        turns, entropies = await asyncio.to_thread(self._turns, repeated, drawn, update, found.policy_version)
        seconds["sampling"] += sampled - started
        seconds["scoring"] += time.perf_counter() - sampled
        trajectories = {}
        for i, turn in turns.items():
            limit = self._planner.max_slots if isinstance(turn.decisions, TokenDecisions) else None
            plan = found.plans[i]
            measured = replace(turn, truncated=plan.truncated, token_limit=limit, text=plan.text)
            trajectories[i] = Trajectory(ROLE, ROLE, (measured,))
        return [
            _Planned(task, plan, (trajectories[i],) if i in trajectories else (), entropies.get(i, {}))
            for i, (task, plan) in enumerate(zip(repeated, found.plans, strict=True))
        ]

    def _turns(
        self, tasks: Sequence[Task], drawn: Mapping[int, _Sampled], update: int, policy_version: int
    ) -> tuple[dict[int, Turn], dict[int, dict[str, float]]]:
        """The sampled rows as turns, and their entropies by kind of decision, by number.

        A language model's tokens are scored only where that says more.
        """
        config = self._config
        correct = config.sampler_correction is not None
        turns, entropies, scored = {}, {}, []
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
                if isinstance(decisions, Decisions):
                    entropies[i] = by_kind(scores.entropy[k, slots].cpu(), mask, scores.step[slots].cpu(), decisions)
                turns[i] = Turn(
                    decisions,
                    logp if correct else sampled,
                    mask,
                    value,
                    scores.step[slots].cpu(),
                    policy_version,
                    sampled if correct else None,
                )
        return turns, entropies

    async def _episode(
        self,
        planned: _Planned,
        known: dict[tuple[str, Workflow], asyncio.Future[JudgedExecution]],
        slots: asyncio.Semaphore,
    ) -> Episode:
        task, workflow = planned.task, planned.plan.workflow

        async def in_turn(workflow: Workflow) -> JudgedExecution:
            async with slots:
                try:
                    return await self._execute(task, workflow)
                except InfrastructureError as error:
                    fault = Unscorable.of(error)
                    return JudgedExecution(task_id=task.task_id, workflow=workflow, results=(), outcome=fault)

        failure = self._reward.invalid()
        reward: Reward | Unscorable = failure
        metrics: dict[str, float] = {**dict.fromkeys(_METRICS, 0.0), **failure.contributions}
        valid = workflow is not None and len(workflow) <= self._config.max_steps_per_episode
        if workflow is not None and valid:
            key = (task.task_id, workflow)
            if key not in known:
                known[key] = asyncio.ensure_future(in_turn(workflow))
            run = await known[key]
            reward = self._reward.of(run)
            metrics = {} if isinstance(reward, Unscorable) else {**_figures(run), **reward.contributions}
        return Episode(
            task_id=task.task_id,
            group_id=task.task_id,
            trajectories=planned.trajectories,
            reward=reward,
            metrics={**metrics, **planned.entropies},
            valid=valid,
            raw_valid=planned.plan.raw_valid,
            text=describe(workflow) if workflow is not None else planned.plan.error,
        )


def _figures(run: JudgedExecution) -> dict[str, float]:
    """`_METRICS` of an execution that could be judged."""
    return {
        "success": float(run.success),
        "tests": run.tests_passed / max(run.tests_total, 1),
        "open": float(run.judged_open),
        "cost_usd": run.total_cost,
        "latency_ms": run.total_latency_ms,
        "checks": float(run.checks_passed),
    }


def by_kind(entropy: Tensor, mask: Tensor, step: Tensor, decisions: Decisions) -> dict[str, float]:
    """`entropy_KIND`: means of (slots,) entropies over the explored decisions of each kind."""
    layout = SlotLayout(int(step.max()) + 1, decisions.fallbacks.shape[1])
    if layout.slots != len(step):
        return {}
    found: dict[str, list[float]] = {}
    for kind, value, exists in zip(layout.kinds, entropy.tolist(), mask.tolist(), strict=True):
        if exists:
            found.setdefault(f"entropy_{kind}", []).append(value)
    return {name: sum(values) / len(values) for name, values in found.items()}


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
