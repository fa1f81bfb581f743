"""Who draws the plans of phase 2: the planner itself, or an engine that follows its weights."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from orchestai.lm.backends.base import SampleSettings
from orchestai.lm.backends.synced import SyncedBackend
from orchestai.planner.base import Plan, TrainablePlanner
from orchestai.planner.language.planner import LanguagePlanner
from orchestai.tasks.task import Task
from orchestai.types import SampleSpec


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
