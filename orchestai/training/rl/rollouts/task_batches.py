"""Which tasks come next, and the episodes that make a batch."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Generic

from accelerate import Accelerator

from orchestai.config import RlConfig
from orchestai.errors import UserError
from orchestai.tasks.task import Task
from orchestai.training.distributed import interleave, on_all, share
from orchestai.training.rl.algorithms.recipes import Recipe
from orchestai.training.rl.monitoring.training_state import Position
from orchestai.training.rl.rollouts.collector import Begun, Collector, Episodes
from orchestai.types import Episode

Telling = Callable[[Sequence[Episode]], bool]
"""Whether the episodes of a group differ in what is learned from them."""


@dataclass(frozen=True)
class SampledBatch:
    """Attempts at the tasks of one update.

    Attributes:
        episodes: to learn from, group after group.
        replaced: of groups that were replaced, likewise.
        consumed: tasks attempted.
        replaced_groups: tasks whose groups were replaced.
        rounds: times that tasks were attempted; 1 without dynamic sampling.
        seconds: see `Episodes`.
    """

    episodes: list[Episode]
    replaced: list[Episode]
    consumed: int
    replaced_groups: int
    rounds: int
    seconds: dict[str, float]


class TaskBatches(Generic[Begun]):
    """Goes through the tasks pass by pass, each shuffled anew, and has them attempted.

    Off policy, the batches after the present one are begun while it is finished. With `dynamic_sampling`, groups whose
    rewards do not differ are replaced by groups of further tasks (DAPO, arXiv 2503.14476, section 3.2).

    Args:
        telling: asked with `dynamic_sampling` alone.

    Raises:
        UserError: groups cannot be replaced as configured.
    """

    def __init__(
        self,
        accelerator: Accelerator,
        collector: Collector[Begun],
        config: RlConfig,
        recipe: Recipe,
        tasks: Sequence[Task],
        telling: Telling,
    ) -> None:
        if config.dynamic_sampling:
            _refuse_dynamic_sampling(config, recipe)
        self._accelerator = accelerator
        self._collector = collector
        self._config = config
        self._tasks = list(tasks)
        self._telling = telling
        self._begun: deque[tuple[list[Task], Begun]] = deque()

    def tasks_from(self, consumed: int, count: int) -> list[Task]:
        """At most `count` tasks after those that were consumed; none is of another pass than the first."""
        epoch, first = divmod(consumed, len(self._tasks))
        order = random.Random(f"{self._config.seed}/{epoch}").sample(self._tasks, len(self._tasks))
        if self._config.num_updates is None:
            count = min(count, self._config.num_episodes - consumed)
        return order[first : first + count]

    async def next(self, position: Position) -> SampledBatch:
        """The episodes of the next update, of all processes, in the order of the tasks; to be called by all together.

        Raises:
            UserError, RuntimeError: as `on_all` does.
        """
        wanted, begun = self._next_begun(position)
        groups: list[list[Episode]] = []
        telling: list[bool] = []
        seconds: dict[str, float] = {}
        rounds = 0
        while True:
            rounds += 1
            parts = await on_all(
                self._accelerator, self._judged(begun), f"exchanging the episodes of update {position.update + 1}"
            )
            groups += interleave([episodes.groups for episodes, _ in parts])
            # Each group is judged by the process that made it, so that all agree on whether to go on.
            telling += interleave([judged for _, judged in parts])
            for name, value in parts[self._accelerator.process_index][0].seconds.items():
                seconds[name] = seconds.get(name, 0.0) + value
            further = self._further(position, len(groups), wanted - sum(telling)) if rounds <= self._rounds else []
            if not further:
                break
            begun = self._begin(further, position.update)
        flat = [number for number, tells in enumerate(telling) if not tells]
        replaced = set(flat[len(flat) - (len(groups) - wanted) :])
        return SampledBatch(
            episodes=[e for number, group in enumerate(groups) if number not in replaced for e in group],
            replaced=[e for number in sorted(replaced) for e in groups[number]],
            consumed=len(groups),
            replaced_groups=len(replaced),
            rounds=rounds,
            seconds=seconds,
        )

    @property
    def _rounds(self) -> int:
        return self._config.max_resampling_rounds if self._config.dynamic_sampling else 0

    def _next_begun(self, position: Position) -> tuple[int, Begun]:
        """The number of tasks of the next batch, and their attempts; those after it are begun too if off policy."""
        ahead = 0 if self._config.on_policy else self._config.max_staleness
        last = self._config.num_updates
        while len(self._begun) <= ahead and (last is None or position.update + len(self._begun) < last):
            consumed = position.consumed + sum(len(tasks) for tasks, _ in self._begun)
            tasks = self.tasks_from(consumed, self._config.tasks_per_update)
            if not tasks:
                break
            self._begun.append((tasks, self._begin(tasks, position.update + len(self._begun))))
        tasks, begun = self._begun.popleft()
        return len(tasks), begun

    def _further(self, position: Position, attempted: int, count: int) -> list[Task]:
        """Tasks of the batch's own pass, so that no task is in it twice."""
        consumed = position.consumed + attempted
        if consumed // len(self._tasks) != position.consumed // len(self._tasks):
            return []
        return self.tasks_from(consumed, count)

    def _begin(self, tasks: Sequence[Task], update: int) -> Begun:
        return self._collector.begin(share(tasks, self._accelerator), update=update)

    async def _judged(self, begun: Begun) -> tuple[Episodes, list[bool]]:
        episodes = await self._collector.finish(begun)
        return episodes, [not self._config.dynamic_sampling or self._telling(group) for group in episodes.groups]


async def all_episodes(accelerator: Accelerator, mine: Awaitable[Episodes], what: str) -> list[Episode]:
    """The episodes of all processes, in the order of the tasks; raises as `on_all` does."""
    parts = await on_all(accelerator, mine, what)
    return [episode for group in interleave([part.groups for part in parts]) for episode in group]


def _refuse_dynamic_sampling(config: RlConfig, recipe: Recipe) -> None:
    key = "training.phase2_rl.dynamic_sampling"
    if recipe.baseline in ("critic", "batch"):
        name = "algorithm PPO" if recipe.baseline == "critic" else f"loss_type {config.loss_type}"
        raise UserError(
            f"{key}: {name} does not compare rewards within groups, so groups without spread teach it something too; "
            "set dynamic_sampling to false, or choose dapo, grpo or another loss_type that compares them"
        )
    if not config.on_policy:
        raise UserError(
            f"{key}: with on_policy=false the tasks after a batch are attempted before it is known which of its groups "
            "must be replaced; set on_policy to true, or dynamic_sampling to false"
        )
