"""Which formulas make up each algorithm."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from orchestai.config.rl import OptimizationConfig
from orchestai.training.rl.algorithms.formulas import Bounds, Level, Mode, Surrogate

Baseline: TypeAlias = Literal["group_scaled", "group", "leave_one_out", "batch", "critic"]

_USUAL = Bounds()


@dataclass(frozen=True)
class Recipe:
    """One algorithm, as a row of choices.

    Attributes:
        baseline: what the reward is compared with: the mean of its group (in standard deviations or not), the mean of
            the others of its group, the mean of the batch, or a learned value (PPO).
        surrogate: the loss per slot.
        mode: how slots and rows are averaged.
        level: whether the ratio is per slot or per row.
        bounds: of the ratio, where the configuration sets none.
    """

    baseline: Baseline
    surrogate: Surrogate
    mode: Mode
    level: Level = "token"
    bounds: Bounds = _USUAL

    @property
    def on_policy(self) -> bool:
        """Without a ratio a sample may be learned from once only."""
        return self.surrogate == "reinforce"

    def bounds_of(self, config: OptimizationConfig) -> Bounds:
        """The bounds that the configuration sets, and the recipe's for those that it leaves out."""
        low, high, max_ratio = self.bounds
        if config.epsilon is not None:
            low = high = config.epsilon
        return Bounds(low, config.epsilon_high or high, max_ratio)


RECIPES: dict[str, Recipe] = {
    "grpo": Recipe("group_scaled", "clip", "sequence_mean"),
    "dr_grpo": Recipe("group", "clip", "constant_length"),
    "dapo": Recipe("group_scaled", "clip", "slot_mean"),
    # The geometric mean of a row's ratios is far nearer to 1 than they are: the bounds of the paper's experiments.
    "gspo": Recipe("group_scaled", "clip", "sequence_mean", level="sequence", bounds=Bounds(low=3e-4, high=4e-4)),
    "cispo": Recipe("group_scaled", "cispo", "slot_mean"),
    "reinforce": Recipe("batch", "reinforce", "sequence_sum"),
    "rloo": Recipe("leave_one_out", "reinforce", "sequence_sum"),
}
# BNPO averages over the slots of a micro-batch; with an average that never depends on micro-batches it is DAPO's.
RECIPES["bnpo"] = RECIPES["dapo"]

PPO = Recipe("critic", "clip", "slot_mean")
