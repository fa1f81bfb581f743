"""Which tasks come next, and the episodes that make a batch."""

from __future__ import annotations

import random
from collections.abc import Awaitable, Sequence

from accelerate import Accelerator

from orchestai.config import RlConfig
from orchestai.tasks.task import Task
from orchestai.training.distributed import interleave, on_all, share
from orchestai.training.rl.monitoring.training_state import Position
from orchestai.training.rl.rollouts.collector import Collector, Episodes
from orchestai.types import Episode


class TaskBatches:
    """Goes through the tasks pass by pass, each shuffled anew, and has them attempted."""

    def __init__(self, accelerator: Accelerator, collector: Collector, config: RlConfig, tasks: Sequence[Task]) -> None:
        self._accelerator = accelerator
        self._collector = collector
        self._config = config
        self._tasks = list(tasks)

    def tasks_from(self, consumed: int, count: int) -> list[Task]:
        """At most `count` tasks after those that were consumed; none is of another pass than the first."""
        epoch, first = divmod(consumed, len(self._tasks))
        order = random.Random(f"{self._config.seed}/{epoch}").sample(self._tasks, len(self._tasks))
        if self._config.num_updates is None:
            count = min(count, self._config.num_episodes - consumed)
        return order[first : first + count]

    async def next(self, position: Position) -> Episodes:
        """The episodes of the next update, of all processes, in the order of the tasks; to be called by all together.

        Raises:
            UserError, RuntimeError: as `on_all` does.
        """
        tasks = share(self.tasks_from(position.consumed, self._config.tasks_per_update), self._accelerator)
        parts = await on_all(
            self._accelerator,
            self._collector.explore(tasks, update=position.update),
            f"exchanging the episodes of update {position.update + 1}",
        )
        groups = interleave([part.groups for part in parts])
        return Episodes(groups, parts[self._accelerator.process_index].seconds)


async def all_episodes(accelerator: Accelerator, mine: Awaitable[Episodes], what: str) -> list[Episode]:
    """The episodes of all processes, in the order of the tasks; raises as `on_all` does."""
    parts = await on_all(accelerator, mine, what)
    return [episode for group in interleave([part.groups for part in parts]) for episode in group]
