"""Log-probabilities of decisions, and by them how likely a plan is right."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from orchestai.planner.slots.decisions import DecisionBatch, SlotLayout
from orchestai.planner.slots.decoder import StructureLogits
from orchestai.planner.slots.selector import SelectionLogits
from orchestai.types import DecisionKind, Scores


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
        m = structure.go_on.shape[1]
        steps = [torch.stack([stop[i], *(F.pad(x, (0, m - n)) for x in (start[i], end[i]))], -1) for i in (0, 1)]
        parts = [(steps[i], chosen[i], edge[i]) for i in (0, 1)]
        parts.append((structure.state_values, chosen[2], structure.plan_value[:, None, None].expand(-1, n, n)))
    placed = []
    for step, more, pairs in parts:
        padded = F.pad(more, (0, 0, 0, step.shape[1] - n))
        placed.append(layout.place(torch.cat([step, padded], -1), pairs) * explored)
    logp, entropy, value = placed
    return Scores(logp=logp, entropy=entropy, value=value, mask=explored, step=layout.step)


def _log_prob(logits: Tensor, chosen: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
    """Log-probability of the (...) indices `chosen` under (..., k) logits, and the entropy; each (...)."""
    logp = F.log_softmax(logits / temperature, -1)
    return logp.gather(-1, chosen[..., None])[..., 0], -(logp.exp() * logp).sum(-1)


def _log_prob_bool(logits: Tensor, chosen: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
    """The same for bool choices with (...) logits of True."""
    scaled = logits / temperature
    entropy = F.binary_cross_entropy_with_logits(scaled, scaled.sigmoid(), reduction="none")
    return F.logsigmoid(torch.where(chosen, scaled, -scaled)), entropy


_KINDS: tuple[tuple[DecisionKind, ...], ...] = (("stop",), ("span",), ("edge",))
_DOUBTS = len(_KINDS) + 1
_FEATURES = _DOUBTS + 2
_SIGNS = (*(-1.0 for _ in _KINDS), -1.0, 1.0, 0.0)
"""Which way a feature may speak, as `sureness` orders them: a doubt never for a plan, whatever some plans say."""
_LEAST_DOUBT = 1e-3
"""In nats; below it doubts are alike. Where all is nearly sure, the chance of a mistake is about the doubt, so that log
odds are linear in its logarithm."""
_RIDGE = 1.0
"""Pull of the coefficients towards 0, in examples: with few plans to learn from, confidence stays near their mean."""
FEWEST = 20
"""Plans below which nothing is learned."""


class PlanConfidence(nn.Module):
    """Learns from plans whose references are known, and which the planner has not learned from.

    It is fitted to plans right and wrong, not trained with the planner; until then nobody knows a confidence. Platt
    (1999) does the same to the margin of a classifier; as there, right and wrong count as 1 and 0 but for what as many
    examples of them leave uncertain, so that no confidence is 1 because all of a few plans were right.
    """

    def __init__(self) -> None:
        super().__init__()
        self.coefficients: Tensor
        self.center: Tensor
        self.scale: Tensor
        self.known: Tensor
        self.least_doubt: Tensor
        self.register_buffer("known", torch.tensor(False))
        self.register_buffer("least_doubt", torch.tensor(_LEAST_DOUBT))
        self.register_buffer("coefficients", torch.zeros(_FEATURES + 1))
        self.register_buffer("center", torch.zeros(_FEATURES))
        self.register_buffer("scale", torch.ones(_FEATURES))

    @property
    def is_known(self) -> bool:
        return bool(self.known)

    def forget(self) -> None:
        """Let nobody know a confidence until it is fitted again."""
        self.known.fill_(False)

    def forward(self, features: Tensor) -> Tensor:
        """(b, features) give (b,) chances of being right."""
        return torch.sigmoid(self._design(features) @ self.coefficients.double()).float()

    @torch.no_grad()
    def fit(self, features: Tensor, right: Tensor) -> None:
        """Learn from (b, features) and (b,) bool by Newton's method; too few plans change nothing."""
        if len(right) < FEWEST:
            return
        self.least_doubt.fill_(_LEAST_DOUBT)
        shaped = self._shaped(features)
        self.center.copy_(shaped.mean(0))
        self.scale.copy_(shaped.std(0).clamp(min=1e-3))
        number = right.sum().double()
        least, most = 1 / (len(right) - number + 2), (number + 1) / (number + 2)
        x, y = self._design(features), torch.where(right.bool(), most, least)
        ridge = torch.eye(x.shape[1], dtype=x.dtype, device=x.device) * _RIDGE
        ridge[-1, -1] = 1e-6
        signs = torch.tensor([*_SIGNS, 0.0], dtype=x.dtype, device=x.device)
        kept = torch.ones_like(signs, dtype=torch.bool)
        while True:
            w, its, pull = x.new_zeros(x.shape[1]), x[:, kept], ridge[kept][:, kept]
            for _ in range(50):
                p = torch.sigmoid(its @ w[kept])
                step = torch.linalg.solve((its.T * (p * (1 - p))) @ its + pull, its.T @ (p - y) + pull @ w[kept])
                w[kept] -= step
                if step.abs().max() < 1e-8:
                    break
            wrong = w * signs < 0
            if not wrong.any():
                break
            kept &= ~wrong
        if torch.isfinite(w).all():
            self.coefficients.copy_(w)
            self.known.fill_(True)

    def _design(self, features: Tensor) -> Tensor:
        return F.pad((self._shaped(features) - self.center) / self.scale, (0, 1), value=1.0).double()

    def _shaped(self, features: Tensor) -> Tensor:
        """The features, with logarithms of doubts."""
        return torch.cat([torch.log(features[:, :_DOUBTS] + self.least_doubt), features[:, _DOUBTS:]], -1)


def sureness(scores: Scores, lengths: Tensor, layout: SlotLayout) -> Tensor:
    """(b, features) of b plans: doubts about their decisions, in nats, by kind and the worst; log-probability per step;
    and how many steps.

    Args:
        scores: of the decisions that make up steps and edges.
        lengths: (b,) number of steps.
    """
    kinds = layout.kinds
    by_kind = [scores.logp[:, [kind in some for kind in kinds]].sum(-1) for some in _KINDS]
    worst, steps = scores.logp.amin(-1), lengths.float()
    doubts = [-total for total in (*by_kind, worst)]
    return torch.stack([*doubts, torch.stack(by_kind).sum(0) / steps, steps], -1)
