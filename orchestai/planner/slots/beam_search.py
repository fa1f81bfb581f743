"""The books of a beam search for steps: beginnings of each plan, and those among them that are whole plans."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor
from torch.nn import functional as F


@dataclass
class Beams:
    """The likeliest beginnings of b plans, w of each, of i steps.

    Attributes:
        size: most beginnings, and most whole plans, that are kept of each plan.
        logp: (b, w) their log-probability.
        spans: (b, w, i, 2) first and last tokens of their steps.
        settled: (b,) bool; no beginning can become likelier than the likeliest whole plan, since what is added only
            makes it less likely. Then no more whole plans are found.
    """

    size: int
    logp: Tensor
    spans: Tensor
    settled: Tensor
    _whole: list[tuple[Tensor, Tensor]] = field(default_factory=list)

    @classmethod
    def begin(cls, rows: int, size: int, like: Tensor) -> Beams:
        """One beginning without a step for each plan; `like` has the type and device of log-probabilities."""
        spans = torch.zeros(rows, 1, 0, 2, dtype=torch.long, device=like.device)
        return cls(size, like.new_zeros(rows, 1), spans, torch.zeros(rows, dtype=torch.bool, device=like.device))

    def stop(self, stop: Tensor, go_on: Tensor) -> None:
        """Every beginning is a whole plan with (b, w) log-probability `stop`, and goes on with that of `go_on`."""
        whole = (self.logp + stop).masked_fill(self.settled[:, None], -torch.inf)
        self._whole.append((whole, self.spans))
        self.logp = self.logp + go_on
        best = torch.cat([logp for logp, _ in self._whole], 1).amax(1)
        self.settled = self.logp.amax(1) <= best

    def extend(self, logp: Tensor, spans: Tensor) -> Tensor:
        """Give the beginnings a further step, and keep the likeliest; (b, w') which of the w each of them continues.

        Args:
            logp: (b, w, k) of k possible steps of each; spans: (b, w, k, 2).
        """
        k = logp.shape[2]
        total = (self.logp[..., None] + logp).flatten(1)
        self.logp, best = total.topk(min(self.size, total.shape[1]), dim=1)
        origin = best // k
        taken = spans.flatten(1, 2).gather(1, best[..., None].expand(-1, -1, 2))
        self.spans = torch.cat([_rows(self.spans, origin), taken[:, :, None]], 2)
        return origin

    def whole(self) -> tuple[Tensor, Tensor, Tensor]:
        """(b, w) log-probabilities of the likeliest whole plans, (b, w) their lengths and (b, w, n, 2) their spans."""
        longest = max(spans.shape[2] for _, spans in self._whole)
        logp = torch.cat([logp for logp, _ in self._whole], 1)
        spans = torch.cat([F.pad(spans, (0, 0, 0, longest - spans.shape[2])) for _, spans in self._whole], 1)
        lengths = torch.cat([torch.full_like(logp, spans.shape[2], dtype=torch.long) for logp, spans in self._whole], 1)
        kept, best = logp.topk(min(self.size, logp.shape[1]), dim=1)
        return kept, lengths.gather(1, best), _rows(spans, best)


def _rows(values: Tensor, rows: Tensor) -> Tensor:
    """(b, w, ...) values at (b, w') places of the second dimension, as (b, w', ...)."""
    index = rows[(...,) + (None,) * (values.dim() - 2)]
    return values.gather(1, index.expand(-1, -1, *values.shape[2:]))
