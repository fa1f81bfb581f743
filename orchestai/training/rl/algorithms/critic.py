"""PPO's critic: how far it looks ahead, advantages above its values, and how fast it learns."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from torch import Tensor

from orchestai.config import OptimizationConfig
from orchestai.lm.value_head import ValueHead
from orchestai.training.rl.algorithms import formulas
from orchestai.training.rl.policy import Policy

VALUE_STEP = 0.05
"""Most by which one optimizer step changes a value, unless the learning rate is given; successes are worth about 1."""


class Horizon(NamedTuple):
    """How far a reward reaches back.

    Attributes:
        gamma: discount per slot.
        lam: lambda of generalized advantage estimation.
    """

    gamma: float
    lam: float


PER_DECISION = Horizon(0.99, 0.95)
"""Schulman et al. 2016 (arXiv 1506.02438); a plan has a few decisions."""
PER_TOKEN = Horizon(1.0, 1.0)
"""Hu et al. 2025 (Open-Reasoner-Zero, arXiv 2503.24290): anything less forgets a reward hundreds of tokens away."""


def horizon(config: OptimizationConfig, usual: Horizon) -> Horizon:
    """What the configuration says, and what is usual for the kind of slot where it says nothing."""
    return Horizon(
        usual.gamma if config.gamma is None else config.gamma,
        usual.lam if config.lambda_gae is None else config.lambda_gae,
    )


def advantages_and_returns(
    earned: Tensor,
    act: Tensor,
    of_row: Tensor,
    row_numbers: Tensor,
    mask: Tensor,
    values: Tensor,
    horizon: Horizon,
) -> tuple[Tensor, Tensor]:
    """GAE along each trajectory, its rows one after the other, with what an act earned at its last decision.

    Args:
        earned: (acts,).
        act: (rows, slots) act of each slot.
        of_row: (rows,) trajectory of each row.
        row_numbers: (rows,) place of each row in its trajectory.
        mask: (rows, slots) bool.
        values: (rows, slots) when the slots were sampled.

    Returns:
        (rows, slots) advantages and returns.
    """
    shape = (int(of_row.max()) + 1, int(row_numbers.max()) + 1, mask.shape[1])

    def along(tensor: Tensor) -> Tensor:
        wide = tensor.new_zeros(shape)
        wide[of_row, row_numbers] = tensor
        return wide.flatten(1)

    exists = along(mask)
    rewards = formulas.at_ends(earned, along(act), exists)
    found = formulas.gae(rewards, along(values), exists, horizon.gamma, horizon.lam)
    advantages, returns = (tensor.unflatten(1, shape[1:])[of_row, row_numbers] for tensor in found)
    return advantages, returns


def value_rates(policy: Policy, config: OptimizationConfig) -> Mapping[str, float]:
    """Learning rates of the weights that do nothing but estimate values, by name."""
    return {
        f"{path}.{name}": config.value_learning_rate or VALUE_STEP / head.in_features
        for path, head in policy.named_modules()
        if isinstance(head, ValueHead)
        for name, _ in head.named_parameters()
    }
