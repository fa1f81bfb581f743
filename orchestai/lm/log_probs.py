"""Log-probability and entropy of chosen tokens, from hidden states, without holding all logits at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch.utils.checkpoint import checkpoint

if TYPE_CHECKING:
    from torch import Tensor, nn

_HELD = 2**25
"""Logits that are held at a time (128 MiB of float32); where there are more, they are computed again in the backward
pass, piece by piece."""
_PIECE = 64
"""Positions whose float32 intermediates are held at a time."""


def likelihood(
    head: nn.Module, hidden: Tensor, targets: Tensor, temperature: float, vocabulary: int
) -> tuple[Tensor, Tensor]:
    """Log-probability of `targets`, and entropy, both (positions,) float32 with gradient.

    Args:
        head: from hidden states to logits.
        hidden: (positions, hidden_size).
        targets: (positions,) int64.
        temperature: divides the logits.
        vocabulary: how many logits `head` gives.
    """

    def piece(states: Tensor, chosen: Tensor) -> tuple[Tensor, Tensor]:
        return _Likelihood.apply(head(states), chosen, temperature)

    size = max(_HELD // vocabulary, 1)
    if len(targets) <= size:
        return piece(hidden, targets)
    pieces: list[Any] = [
        checkpoint(piece, states, chosen, use_reentrant=False)
        for states, chosen in zip(hidden.split(size), targets.split(size), strict=True)
    ]
    logp, entropy = zip(*pieces, strict=True)
    return torch.cat(logp), torch.cat(entropy)


class _Likelihood(torch.autograd.Function):
    """With z the logits over the temperature and p = softmax(z): log p of the target, and H = lse(z) - sum(p z).

    dH/dz = -p (z - sum(p z)), so the backward pass needs z alone.
    """

    @staticmethod
    def forward(ctx: Any, logits: Tensor, targets: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
        chosen, total, mean = torch.empty(3, len(logits), dtype=torch.float32, device=logits.device)
        for start in range(0, len(logits), _PIECE):
            part = slice(start, start + _PIECE)
            scaled = logits[part].float() / temperature
            chosen[part] = scaled.gather(-1, targets[part, None])[:, 0]
            total[part] = scaled.logsumexp(-1)
            mean[part] = (scaled - total[part, None]).exp_().mul_(scaled).sum(-1)
        ctx.save_for_backward(logits, targets, total, mean)
        ctx.temperature = temperature
        return chosen - total, total - mean

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        logits, targets, total, mean = ctx.saved_tensors
        of_logp, of_entropy = (grad[:, None] / ctx.temperature for grad in grads)
        result = torch.empty_like(logits)
        for start in range(0, len(logits), _PIECE):
            part = slice(start, start + _PIECE)
            scaled = logits[part].float() / ctx.temperature
            weights = of_logp[part] + of_entropy[part] * (scaled - mean[part, None])
            gradient = scaled.sub_(total[part, None]).exp_().mul_(weights).neg_()
            result[part] = gradient.scatter_add_(-1, targets[part, None], of_logp[part])
        return result, None, None
