"""From the decoder's logits to log-probabilities, entropies and values in the layout of `Scores`."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from orchestai.planner.slots.decisions import DecisionBatch, SlotLayout
from orchestai.planner.slots.decoder import StructureLogits
from orchestai.planner.slots.selector import SelectionLogits
from orchestai.types import Scores


def score(
    structure: StructureLogits | None,
    selection: SelectionLogits | None,
    given: DecisionBatch,
    explored: Tensor,
    temperature: float,
    layout: SlotLayout,
) -> Scores:
    """Scores of the decisions that the logits were computed along.

    Args:
        structure: None where no decision about steps and edges is scored.
        selection: None where none about types and workers is.
        explored: (b, slots) bool; the decisions that are scored.
    """
    rows, n, fallbacks = given.fallbacks.shape
    if selection is None:
        chosen = [torch.zeros(rows, n, 2 + fallbacks, device=explored.device)] * 3
    else:
        kind = _log_prob(selection.types, given.types, temperature)
        worker = _log_prob(selection.workers, given.workers, temperature)
        fallback = _log_prob(selection.fallbacks, given.fallbacks, temperature)
        chosen = [
            torch.cat([its[..., None], one[..., None], more], -1)
            for its, one, more in zip(kind, worker, fallback, strict=True)
        ]
        chosen.append(selection.values)
    if structure is None:
        nothing = chosen[0].new_zeros(rows, n, 3), chosen[0].new_zeros(rows, n, n)
        parts = [(nothing[0], more, nothing[1]) for more in chosen]
    else:
        going = torch.arange(structure.go_on.shape[1], device=explored.device) < given.lengths[:, None]
        stop = _log_prob_bool(structure.go_on, going, temperature)
        start = _log_prob(structure.start, given.spans[..., 0], temperature)
        end = _log_prob(structure.end, given.spans[..., 1], temperature)
        edge = _log_prob_bool(structure.edges, given.edges, temperature)
        parts = [(_steps(stop[i], start[i], end[i]), chosen[i], edge[i]) for i in (0, 1)]
        parts.append((structure.state_values, chosen[2], structure.plan_value[:, None, None].expand(-1, n, n)))
    logp, entropy, value = (_place(*part, layout) * explored for part in parts)
    return Scores(logp=logp, entropy=entropy, value=value, mask=explored, step=layout.step)


def _steps(stop: Tensor, *others: Tensor) -> Tensor:
    """(b, m) and (b, n), n <= m, as (b, m, decisions)."""
    padded = [F.pad(other, (0, stop.shape[1] - other.shape[1])) for other in others]
    return torch.stack([stop, *padded], -1)


def _place(steps: Tensor, chosen: Tensor, pairs: Tensor, layout: SlotLayout) -> Tensor:
    """(b, m, 3), (b, n, 2 + F) and (b, n, n), n <= m, as (b, slots)."""
    padded = F.pad(chosen, (0, 0, 0, steps.shape[1] - chosen.shape[1]))
    return layout.place(torch.cat([steps, padded], -1), pairs)


def _log_prob(logits: Tensor, chosen: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
    """Log-probability of the (...) indices `chosen` under (..., k) logits, and the entropy; each (...)."""
    logp = F.log_softmax(logits / temperature, -1)
    return logp.gather(-1, chosen[..., None])[..., 0], -(logp.exp() * logp).sum(-1)


def _log_prob_bool(logits: Tensor, chosen: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
    """The same for bool choices with (...) logits of True."""
    scaled = logits / temperature
    entropy = F.binary_cross_entropy_with_logits(scaled, scaled.sigmoid(), reduction="none")
    return F.logsigmoid(torch.where(chosen, scaled, -scaled)), entropy
