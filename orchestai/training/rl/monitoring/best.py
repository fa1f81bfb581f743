"""The rule of the best checkpoint.

Best is the highest validation reward among the checkpoints whose validation success is not below that of the policy
that training began with by more than one standard error of the paired difference per task. Of fewer than `ENOUGH` tasks
that error is not known well enough (of one, not at all), so that success must not be below it at all. Where attempts
have no figure `success`, as those of some agents, reward alone decides.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from orchestai.outcome import Reward
from orchestai.training.rl.monitoring.training_state import Position
from orchestai.types import Episode

ENOUGH = 8
"""Validation tasks of which a standard error is believed: of 8 differences it is itself known to about a quarter."""
_ROUNDING = 1e-9


@dataclass(frozen=True)
class Change:
    """The mean of paired differences since training began, and its standard error (infinite for a single pair)."""

    mean: float
    error: float
    tasks: int

    @property
    def is_loss(self) -> bool:
        """Whether less is left than chance explains, by one standard error; of too few tasks, whether less is left."""
        return self.mean < -(self.error if self.tasks >= ENOUGH else 0.0) - _ROUNDING

    def __str__(self) -> str:
        margin = f" ± {100 * self.error:.1f} points" if math.isfinite(self.error) else " points, of a single task"
        return f"{100 * self.mean:+.1f}{margin}"


@dataclass(frozen=True)
class Standing:
    """How an evaluation compares with those before it.

    Attributes:
        best: whether its policies are the best so far.
        reward_change: since training began.
        success_change: likewise, paired by task; None where attempts have no figure `success`.
        passed_over: why it is not the best although it has the most reward; else empty.
    """

    best: bool
    reward_change: float
    success_change: Change | None
    passed_over: str = ""


def successes(episodes: Sequence[Episode]) -> dict[str, float]:
    """Success by task, of the episodes that could be judged and have that figure."""
    judged = [e for e in episodes if isinstance(e.reward, Reward) and "success" in e.metrics]
    return {episode.task_id: episode.metrics["success"] for episode in judged}


def change(now: Mapping[str, float], before: Mapping[str, float]) -> Change | None:
    """The change of a figure over the tasks that have it in both; None where there are none."""
    pairs = [now[task] - before[task] for task in now if task in before]
    if not pairs:
        return None
    n = len(pairs)
    return Change(fmean(pairs), stdev(pairs) / math.sqrt(n) if n > 1 else math.inf, n)


def judge(position: Position, reward: float, success: Mapping[str, float]) -> Standing:
    """Compare an evaluation with those before it, and note in `position` what later ones are compared with."""
    if position.start_reward is None:
        position.start_reward, position.start_success = reward, dict(success)
    changed = change(success, position.start_success)
    more = position.best_reward is None or reward > position.best_reward
    lost = changed is not None and changed.is_loss
    best = more and not lost
    passed_over = ""
    if more and lost:
        passed_over = (
            f"reward {reward:.3f} is the highest so far, but success changed by {changed} since the start, which "
            f"counts as a loss; the best stays that of update {position.best_update}"
        )
    if best:
        position.best_reward, position.best_update = reward, position.update
        position.best_success = fmean(success.values()) if success else None
    return Standing(best, reward - position.start_reward, changed, passed_over)
