"""Importance weights: samples of one policy that count as often as another would have drawn them.

Sources: truncated importance sampling (Yao et al. 2025, fengyao.notion.site/off-policy-rl), masked (Liu et al. 2025,
"When speed kills stability"), effective sample size (Kong 1992, "A note on importance sampling using standardized
weights").
"""

from __future__ import annotations

from typing import Literal, TypeAlias

import torch
from torch import Tensor

from orchestai.training.rl.algorithms.formulas import Level

Bound: TypeAlias = Literal["truncate", "mask"]
_LARGEST_LOG = 20.0
"""Logarithms of weights are held within this, so that sums of squares stay finite."""


def sampler_weights(
    logp: Tensor, sampler_logp: Tensor, mask: Tensor, level: Level, bound: Bound, largest: float
) -> Tensor:
    """(rows, slots) weights that correct for samples of a policy that is not quite the one that is trained.

    A fast sampler computes in another dtype; its samples count as often as the trained
    policy would have drawn them: exp(logp - sampler_logp), per slot, or (`sequence`) the product over the row. A weight
    above `largest` becomes that (`truncate`) or 0 (`mask`). 1 where `mask` is False.

    Args:
        logp: (rows, slots) of the policy that is trained, before the first optimizer step on these rows.
        sampler_logp: (rows, slots) when the slots were drawn.
    """
    difference = torch.where(mask, logp - sampler_logp, 0.0)
    if level == "sequence":
        difference = difference.sum(1, keepdim=True).expand_as(difference)
    weights = difference.exp()
    weights = weights.clamp(max=largest) if bound == "truncate" else torch.where(weights <= largest, weights, 0.0)
    return torch.where(mask, weights, 1.0)


def weight_moments(log_weights: Tensor, mask: Tensor, level: Level) -> Tensor:
    """(3,) number of importance weights, their sum and that of their squares, which `effective_share` needs.

    Moments of parts add up to those of the whole. A weight is that of a slot, or (`sequence`) the product over a row.

    Args:
        log_weights: (rows, slots).
    """
    exists, logs = mask, torch.where(mask, log_weights, 0.0)
    if level == "sequence":
        exists, logs = mask.any(1), logs.sum(1)
    weights = torch.where(exists, logs.clamp(-_LARGEST_LOG, _LARGEST_LOG).exp(), 0.0)
    return torch.stack([exists.sum().to(weights.dtype), weights.sum(), (weights**2).sum()])


def effective_share(moments: Tensor) -> float:
    """ESS / n = (sum w)^2 / (n sum w^2) of n importance weights: 1 where all are equal, 1 / n where one has it all.

    That share of the samples, drawn from the target itself, would give estimates of the same variance.
    """
    count, total, squares = moments.tolist()
    return total**2 / (count * squares) if count else 1.0
