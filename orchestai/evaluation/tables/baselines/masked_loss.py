"""The likelihood of scores of which some are missing."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn.functional import binary_cross_entropy_with_logits

from orchestai.data.tables.outcome_table import Values


def targets_of(score: Values) -> tuple[Tensor, Tensor]:
    """Scores with 0 where they are missing, and a mask that is 0 there and 1 elsewhere; float32."""
    values = torch.from_numpy(score).float()
    known = ~values.isnan()
    return values.nan_to_num(0.0), known.float()


def cross_entropy(logits: Tensor, targets: Tensor, known: Tensor) -> Tensor:
    """Sum over the known cells; all three are (queries, workers)."""
    return (binary_cross_entropy_with_logits(logits, targets, reduction="none") * known).sum()
