"""How much better training attempts do than validation attempts: a gap that grows says that tasks are learned by heart.

Training attempts are sampled and validation attempts are greedy, so the gap is not 0 at the beginning, often below; its
growth above 0 is what tells.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from statistics import fmean
from typing import NamedTuple

from orchestai.outcome import Reward
from orchestai.training.rl.monitoring.training_state import Position
from orchestai.types import Episode

_NOISE = 2.0
"""Standard errors."""


class Gap(NamedTuple):
    """A difference of means over tasks, and its standard error."""

    mean: float
    error: float


class _Moments(NamedTuple):
    values: float = 0
    total: float = 0
    squares: float = 0

    def add(self, values: Iterable[float]) -> _Moments:
        new = list(values)
        squares = sum(value * value for value in new)
        return _Moments(self.values + len(new), self.total + sum(new), self.squares + squares)

    @property
    def mean(self) -> float:
        return self.total / self.values

    @property
    def variance(self) -> float:
        """Of the mean; infinite where it cannot be known."""
        if self.values < 2:
            return math.inf
        return max(self.squares / self.values - self.mean**2, 0.0) / (self.values - 1)


def note_attempts(position: Position, attempts: Sequence[Episode]) -> None:
    """Add an update's attempts to those since the last evaluation, a mean per task."""
    for name, values in _by_task(attempts).items():
        before = _Moments(*position.attempts_since_evaluation.get(name, ()))
        position.attempts_since_evaluation[name] = list(before.add(values))


def measure_gaps(position: Position, validation: Sequence[Episode]) -> dict[str, Gap]:
    """Reward and, where attempts have it, success: the mean of the attempts noted less that of validation attempts.

    Nothing is noted any more afterwards, and the first gaps are kept in `position` for `growth`.
    """
    gaps = {}
    for name, values in _by_task(validation).items():
        if name in position.attempts_since_evaluation:
            train, held_out = _Moments(*position.attempts_since_evaluation[name]), _Moments().add(values)
            gaps[name] = Gap(train.mean - held_out.mean, math.sqrt(train.variance + held_out.variance))
            position.first_gaps.setdefault(name, list(gaps[name]))
    position.attempts_since_evaluation.clear()
    return gaps


def growth(position: Position, gaps: Mapping[str, Gap]) -> str:
    """What to say where a gap is above 0 and above the first one by more than two standard errors; else nothing."""
    name = "success" if "success" in gaps else "reward"
    if name not in gaps:
        return ""
    now, first = gaps[name], Gap(*position.first_gaps[name])
    if now.mean - max(first.mean, 0.0) <= _NOISE * math.hypot(now.error, first.error):
        return ""
    return (
        f"{name} on training tasks is {now.mean:.3g} above that on validation tasks ({first.mean:.3g} at the first "
        f"evaluation of this run), more than noise explains ({_NOISE:g} standard errors): tasks are learned by heart; "
        "more tasks, a higher training.phase2_rl.kl_coef or fewer updates help, and phase2_best is what did best on "
        "validation tasks"
    )


def _by_task(episodes: Sequence[Episode]) -> dict[str, list[float]]:
    """Mean reward and success of each task, over its attempts that could be judged."""
    found: dict[str, dict[str, list[float]]] = {"reward": {}, "success": {}}
    for episode in episodes:
        if isinstance(episode.reward, Reward):
            found["reward"].setdefault(episode.task_id, []).append(episode.reward.total)
            if "success" in episode.metrics:
                found["success"].setdefault(episode.task_id, []).append(episode.metrics["success"])
    return {name: [fmean(values) for values in tasks.values()] for name, tasks in found.items() if tasks}
