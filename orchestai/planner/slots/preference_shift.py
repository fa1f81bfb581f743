"""How a preference moves the choice of workers: by queries that are added, none before training."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from orchestai.preference import Preference

INPUTS = 3
"""1 where there is a preference, and how much money and time count, evenly along the scale of `prefer`."""


def preference_inputs(preferences: Sequence[Preference | None], rows: int, device: torch.device) -> Tensor:
    """(rows, INPUTS) float32; zeros where there is no preference.

    Args:
        preferences: as many as rows, or none at all.
    """

    def inputs(one: Preference | None) -> tuple[float, ...]:
        if one is None:
            return (0.0,) * INPUTS
        price = 1 - one.prefer
        return 1.0, price * (1 - one.time_share), price * one.time_share

    found = [inputs(one) for one in preferences]
    return torch.tensor(found or [(0.0,) * INPUTS] * rows, device=device)


class PreferenceShift(nn.Module):
    """What preferences add to the output of a linear layer.

    The output is linear in how much money and time count. Of logits that are linear in it, too, the largest is one
    whose slope, the learned saving, never falls as money counts more; and any order of choices from dear to cheap, with
    any points where one gives way to the next, is some such logits'. It is zero before training, and draws no random
    numbers, so that a planner that does not know preferences is as it would be without it.
    """

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(INPUTS, outputs, inputs), requires_grad=False)

    def forward(self, x: Tensor, preference: Tensor) -> Tensor:
        """(b, n, outputs) of (b, n, inputs), by (b, INPUTS)."""
        each = F.linear(x, self.weight.flatten(0, 1)).unflatten(-1, self.weight.shape[:2])
        return torch.einsum("bnko,bk->bno", each, preference)
