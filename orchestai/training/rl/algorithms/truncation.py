"""Completions that are too long: what they are charged, and what is left out of the loss."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from orchestai.training.rl.algorithms import formulas
from orchestai.training.rl.algorithms.credit import Acts
from orchestai.types import Turn


def overlong_rewards(turns: Sequence[Turn], valid: Tensor, buffer: int) -> Tensor:
    """(turns,) float64 `maths.overlong`; 0 where decisions are not tokens.

    Args:
        valid: (turns,) bool; what is invalid gets -1, because it must stay worth less than everything valid.
    """
    limits = [turn.token_limit for turn in turns]
    found = formulas.overlong(
        torch.tensor([len(turn.mask) for turn in turns], dtype=torch.float64),
        torch.tensor([limit or 1 for limit in limits], dtype=torch.float64),
        torch.tensor([turn.truncated for turn in turns]) | ~valid,
        buffer,
    )
    return torch.where(torch.tensor([limit is not None for limit in limits]), found, 0.0)


def without_truncated(advantages: Tensor, truncated: Tensor, acts: Acts) -> Tensor:
    """Advantages of acts, or of trajectories, 0 where all that they are of was cut off.

    Args:
        truncated: (acts,) bool.
    """
    if len(advantages) == len(truncated):
        return torch.where(truncated, 0.0, advantages)
    kept = torch.zeros(len(advantages)).index_add(0, acts.trajectory, (~truncated).float())
    return torch.where(kept > 0, advantages, 0.0)
