"""The books of a beam search for steps: beginnings of each plan, and the likeliest whole plans."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor


@dataclass(frozen=True, eq=False)
class Beams:
    """The w likeliest beginnings, and whole plans, that were found of each of b plans of at most n steps.

    Attributes:
        length: () steps of the beginnings.
        logp: (b, w) log-probability of the beginnings; -inf where there are fewer.
        spans: (b, w, n, 2) first and last tokens of their steps, zeros behind these.
        settled: (b,) bool; no beginning can become likelier than the likeliest whole plan, since what is added only
            makes it less likely. Then no more whole plans are found.
        whole_logp, whole_spans, whole_lengths: the same of whole plans, with (b, w) lengths.
    """

    length: Tensor
    logp: Tensor
    spans: Tensor
    settled: Tensor
    whole_logp: Tensor
    whole_spans: Tensor
    whole_lengths: Tensor

    @classmethod
    def begin(cls, rows: int, size: int, longest: int, like: Tensor) -> Beams:
        """One beginning without a step for each plan; `like` has the type and device of log-probabilities."""
        nothing = like.new_full((rows, size), -torch.inf)
        spans = torch.zeros(rows, size, longest, 2, dtype=torch.long, device=like.device)
        return cls(
            length=torch.zeros((), dtype=torch.long, device=like.device),
            logp=torch.where(torch.arange(size, device=like.device) == 0, 0.0, nothing),
            spans=spans,
            settled=torch.zeros(rows, dtype=torch.bool, device=like.device),
            whole_logp=nothing,
            whole_spans=spans,
            whole_lengths=spans[..., 0, 0],
        )

    @property
    def ends(self) -> Tensor:
        """(b, w) last tokens of the latest steps; -1 before the first."""
        places = torch.arange(self.spans.shape[2], device=self.spans.device)
        return torch.where(places == self.length - 1, self.spans[..., 1], -1).amax(-1)

    def trimmed(self) -> Beams:
        """Without room for further steps."""
        n = int(self.length)
        return replace(self, spans=self.spans[:, :, :n], whole_spans=self.whole_spans[:, :, :n])

    def stop(self, stop: Tensor, go_on: Tensor) -> Beams:
        """Every beginning is a whole plan with (b, w) log-probability `stop`, and goes on with that of `go_on`."""
        logp = (self.logp + stop).masked_fill(self.settled[:, None], -torch.inf)
        whole, best = torch.cat([self.whole_logp, logp], 1).topk(logp.shape[1], dim=1)
        left = self.logp + go_on
        return replace(
            self,
            logp=left,
            settled=left.amax(1) <= whole.amax(1),
            whole_logp=whole,
            whole_spans=_rows(torch.cat([self.whole_spans, self.spans], 1), best),
            whole_lengths=_rows(torch.cat([self.whole_lengths, self.length.expand_as(logp)], 1), best),
        )

    def extend(self, logp: Tensor, spans: Tensor) -> tuple[Beams, Tensor]:
        """Give the beginnings a further step, and keep the likeliest; also (b, w) which of the w each continues.

        Args:
            logp: (b, w, k) of k possible steps of each; spans: (b, w, k, 2).
        """
        total = (self.logp[..., None] + logp).flatten(1)
        kept, best = total.topk(self.logp.shape[1], dim=1)
        origin = best // logp.shape[2]
        taken = _rows(spans.flatten(1, 2), best)[:, :, None]
        here = (torch.arange(self.spans.shape[2], device=best.device) == self.length)[:, None]
        return replace(
            self, length=self.length + 1, logp=kept, spans=torch.where(here, taken, _rows(self.spans, origin))
        ), origin


def _rows(values: Tensor, rows: Tensor) -> Tensor:
    """(b, w, ...) values at (b, w') places of the second dimension, as (b, w', ...)."""
    index = rows[(...,) + (None,) * (values.dim() - 2)]
    return values.gather(1, index.expand(-1, -1, *values.shape[2:]))
