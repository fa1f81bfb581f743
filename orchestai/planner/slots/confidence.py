"""How likely a plan is right: a logistic regression on how sure the planner was of what makes it up."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from orchestai.planner.slots.decisions import SlotLayout
from orchestai.types import DecisionKind, Scores

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
            w = x.new_zeros(x.shape[1])
            w[kept] = _newton(x[:, kept], y, ridge[kept][:, kept])
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


def _newton(x: Tensor, y: Tensor, ridge: Tensor) -> Tensor:
    """(features,) coefficients of the regression of (b,) outcomes on (b, features)."""
    w = x.new_zeros(x.shape[1])
    for _ in range(50):
        p = torch.sigmoid(x @ w)
        step = torch.linalg.solve((x.T * (p * (1 - p))) @ x + ridge, x.T @ (p - y) + ridge @ w)
        w = w - step
        if step.abs().max() < 1e-8:
            break
    return w


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
