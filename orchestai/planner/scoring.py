"""From the decoder's logits to log-probabilities, entropies and values in the layout of `Scores`."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from orchestai.planner.base import Scores
from orchestai.planner.decisions import DecisionBatch, SlotLayout
from orchestai.planner.decoder import Logits


def score(logits: Logits, given: DecisionBatch, explored: Tensor, temperature: float, layout: SlotLayout) -> Scores:
    """Scores of the decisions that `logits` were computed along.

    Args:
        explored: (b, slots) bool; the decisions that are scored.
    """
    m, n = logits.go_on.shape[1], given.spans.shape[1]
    going = torch.arange(m, device=logits.go_on.device) < given.lengths[:, None]
    heads = [
        _log_prob(logits.start, given.spans[..., 0], temperature),
        _log_prob(logits.end, given.spans[..., 1], temperature),
        _log_prob(logits.types, given.types, temperature),
        _log_prob(logits.workers, given.workers, temperature),
    ]
    stop = _log_prob_bool(logits.go_on, going, temperature)
    fallback = _log_prob(logits.fallbacks, given.fallbacks, temperature)
    edge = _log_prob_bool(logits.edges, given.edges, temperature)

    def place(stop: Tensor, heads: list[Tensor], fallback: Tensor, pairs: Tensor) -> Tensor:
        steps = F.pad(torch.cat([torch.stack(heads, -1), fallback], -1), (0, 0, 0, m - n))
        return layout.place(torch.cat([stop[..., None], steps], -1), pairs) * explored

    state_values = F.pad(logits.need_values, (0, 0, 0, m - n))
    values = layout.place(
        torch.cat([logits.state_values, state_values], -1), logits.plan_value[:, None, None].expand(-1, n, n)
    )
    return Scores(
        logp=place(stop[0], [head[0] for head in heads], fallback[0], edge[0]),
        entropy=place(stop[1], [head[1] for head in heads], fallback[1], edge[1]),
        value=values * explored,
        mask=explored,
    )


def _log_prob(logits: Tensor, chosen: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
    """Log-probability of the (...) indices `chosen` under (..., k) logits, and the entropy; each (...)."""
    logp = F.log_softmax(logits / temperature, -1)
    return logp.gather(-1, chosen[..., None])[..., 0], -(logp.exp() * logp).sum(-1)


def _log_prob_bool(logits: Tensor, chosen: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
    """The same for bool choices with (...) logits of True."""
    scaled = logits / temperature
    entropy = F.binary_cross_entropy_with_logits(scaled, scaled.sigmoid(), reduction="none")
    return F.logsigmoid(torch.where(chosen, scaled, -scaled)), entropy
