"""The planner that asks whole tasks of whom the estimate speaks best: what tables teach, which split no task."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np

from orchestai.config import CACHE_DIR
from orchestai.estimate.attempts import Queries
from orchestai.estimate.plan_options import plan_options
from orchestai.estimate.pool_estimate import PoolEstimate
from orchestai.estimate.step_attempts import WHOLE
from orchestai.execution.reward import RewardForm
from orchestai.planner.base import Plan
from orchestai.planner.baselines.reference import whole_task
from orchestai.planner.expected_reward import expected_reward
from orchestai.planner.slots.encoders.query_features import query_features
from orchestai.tasks.task import Task


@dataclass(frozen=True)
class RoutingPlanner:
    """Plans each task as one step, with the workers of the highest expected reward.

    Args:
        estimate: of the workers.
        workers: of the pool, by name; those that the estimate does not know are not asked.
        reward: weighs what is paid and how long it takes against success; None: success alone counts.
        longest: most workers to ask, one after the other.
        cache_dir: see `query_features`.
    """

    estimate: PoolEstimate
    workers: Sequence[str]
    reward: RewardForm | None
    longest: int
    cache_dir: Path = field(default=CACHE_DIR)

    def plan(self, tasks: Sequence[Task]) -> list[Plan]:
        """One plan per task; its confidence is 1, since a task that is asked as it stands is split rightly."""
        texts = tuple(task.instruction for task in tasks)
        queries = Queries(texts, (WHOLE,) * len(texts), query_features(texts, self.cache_dir))
        names = self.estimate.workers
        plans = []
        for task, step in zip(tasks, self.estimate.steps(queries), strict=True):
            options = plan_options([step], self._allowed, self.longest)
            [order] = options.workers[int(np.argmax(expected_reward(options, self.estimate, self.reward)))]
            first, *others = (names[place] for place in order)
            workflow = whole_task(task)
            chosen = workflow.replace({workflow.subtasks[0].id: {"worker": first, "fallback": tuple(others)}})
            plans.append(Plan(workflow=chosen, raw_valid=True, confidence=1.0))
        return plans

    @cached_property
    def _allowed(self) -> list[int]:
        return [place for place, name in enumerate(self.estimate.workers) if name in set(self.workers)]
