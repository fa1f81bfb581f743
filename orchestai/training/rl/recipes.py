"""Which formulas make up each algorithm."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from orchestai.training.rl.maths import Level, Mode, Surrogate

Baseline: TypeAlias = Literal["group_scaled", "group", "leave_one_out", "batch", "critic"]


@dataclass(frozen=True)
class Recipe:
    """One algorithm, as a row of choices.

    Attributes:
        baseline: what the reward is compared with: the mean of its group (in standard deviations or not), the mean of
            the others of its group, the mean of the batch, or a learned value (PPO).
        surrogate: the loss per slot.
        mode: how slots and rows are averaged.
        level: whether the ratio is per slot or per row.
    """

    baseline: Baseline
    surrogate: Surrogate
    mode: Mode
    level: Level = "token"

    @property
    def on_policy(self) -> bool:
        """Without a ratio a sample may be learned from once only."""
        return self.surrogate == "reinforce"


RECIPES: dict[str, Recipe] = {
    "grpo": Recipe("group_scaled", "clip", "sequence_mean"),
    "dr_grpo": Recipe("group", "clip", "constant_length"),
    "dapo": Recipe("group_scaled", "clip", "slot_mean"),
    "gspo": Recipe("group_scaled", "clip", "sequence_mean", level="sequence"),
    "cispo": Recipe("group_scaled", "cispo", "slot_mean"),
    "reinforce": Recipe("batch", "reinforce", "sequence_sum"),
    "rloo": Recipe("leave_one_out", "reinforce", "sequence_sum"),
}
# BNPO averages over the slots of a micro-batch; with an average that never depends on micro-batches it is DAPO's.
RECIPES["bnpo"] = RECIPES["dapo"]

PPO = Recipe("critic", "clip", "slot_mean")
