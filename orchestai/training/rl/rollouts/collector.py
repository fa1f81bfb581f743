"""What the trainer needs of whatever makes episodes: plans that are executed, or agents that act."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from orchestai.tasks.task import Task
from orchestai.types import Episode


@dataclass
class Episodes:
    """What was collected.

    Attributes:
        groups: for each task, in order, the episodes of its attempts.
        seconds: spent, by what on: `sampling` plans, `scoring` them and waiting for executions (`executing`), or
            letting agents act (`acting`).
    """

    groups: list[list[Episode]]
    seconds: dict[str, float] = field(default_factory=dict)


class Collector(Protocol):
    """Turns tasks into episodes (`Rollout`, `AgentRollout`)."""

    async def explore(self, tasks: Sequence[Task], *, update: int) -> Episodes:
        """`num_generations` attempts per task."""
        ...

    async def exploit(self, tasks: Sequence[Task]) -> Episodes:
        """One attempt per task, every decision the likeliest."""
        ...

    async def sync(self, versions: Mapping[str, int]) -> dict[str, float]:
        """Draw from the policies' weights of those versions from now on.

        Returns:
            figures for reports, where the weights are new.
        """
        ...
