"""How phase 2 ended, and whether it changed anything."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from statistics import fmean

from orchestai.errors import UserError
from orchestai.training.rl.monitoring.training_state import Position


@dataclass(frozen=True)
class RunSummary:
    """How training ended.

    Attributes:
        updates: batches learned from, earlier runs included.
        best_reward: mean reward on the validation tasks of the policies in phase2_best.pth.
        start_reward: of those that training began with.
        best_success, start_success: likewise their success; None where attempts have no such figure.
        stopped: why it ended before its time; empty if it did not.
        steps: optimizer steps of each policy.
        signal: number of the signal that stopped it, if one did.
    """

    updates: int
    best_reward: float
    start_reward: float
    best_success: float | None
    start_success: float | None
    stopped: str
    steps: dict[str, int]
    signal: int | None = None

    @classmethod
    def of(cls, position: Position, stopped: str, signal: int | None = None) -> RunSummary:
        start = position.start_success.values()
        return cls(
            position.update,
            position.best_reward or 0.0,
            position.start_reward or 0.0,
            position.best_success,
            fmean(start) if start else None,
            stopped,
            dict(position.versions),
            signal,
        )

    def __str__(self) -> str:
        """What the best policies are worth on the validation tasks, and what training began with."""
        said = f"reward {self.best_reward:.3f} ({self.start_reward:.3f} at the start)"
        if self.best_success is not None and self.start_success is not None:
            said += f", success {self.best_success:.1%} ({self.start_success:.1%})"
        return said

    @property
    def complaint(self) -> str:
        """What to say of policies of which no weight changed; empty where all learned, or were not done learning."""
        idle = [name for name, steps in self.steps.items() if not steps]
        if not idle or self.signal is not None:
            return ""
        whose = "" if len(idle) == len(self.steps) else f" of {' and '.join(idle)}"
        return (
            f"no weight{whose} changed: in none of {self.updates} updates did a reward differ from what it is compared "
            "with. Take tasks that the policy solves now and then, raise training.phase2_rl.temperature or "
            "num_generations, or start from a policy that knows more"
        )

    def exit_if_stopped(self) -> None:
        """End the program with the shells' code, 128 and the signal's number, if a signal stopped training."""
        if self.signal is not None:
            sys.exit(128 + self.signal)

    def refuse_unchanged(self) -> None:
        """Raise UserError if no weight changed at all."""
        if not any(self.steps.values()):
            raise UserError("training ended with the weights that it began with, for the reason said above")
