"""What the trainer needs of whatever makes episodes: plans that are executed, or agents that act."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeVar

from orchestai.tasks.task import Task
from orchestai.types import Episode


@dataclass
class Episodes:
    """What was collected.

    Attributes:
        groups: for each task, in order, the episodes of its attempts.
        seconds: spent, by what on: `sampling` plans, `scoring` them and waiting for executions (`executing`), or
            letting agents act (`acting`). Off policy, some of it overlaps with other work.
    """

    groups: list[list[Episode]]
    seconds: dict[str, float] = field(default_factory=dict)


Begun = TypeVar("Begun")


class Collector(Protocol[Begun]):
    """Turns tasks into episodes (`Rollout`, `AgentRollout`).

    Attributes:
        weights: held while policies draw, and by whoever changes their weights.
    """

    weights: asyncio.Lock

    def begin(self, tasks: Sequence[Task], *, update: int) -> Begun:
        """Start to make `num_generations` attempts per task, after those that were begun before."""
        ...

    async def finish(self, begun: Begun) -> Episodes:
        """The episodes of what was begun."""
        ...

    async def exploit(self, tasks: Sequence[Task]) -> Episodes:
        """One attempt per task, every decision the likeliest."""
        ...

    async def sync(self, versions: Mapping[str, int]) -> dict[str, float]:
        """Draw from the policies' weights of those versions from now on; hold `weights` meanwhile.

        Returns:
            figures for reports, where the weights are new.
        """
        ...

    async def stop(self) -> None:
        """Begin no more; what was begun and not finished is lost."""
        ...
