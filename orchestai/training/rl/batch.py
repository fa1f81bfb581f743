"""What an update learns from: rows of decisions as tensors, with their advantages."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import torch
from torch import Tensor

from orchestai.config import SamplingConfig
from orchestai.tasks.task import Task
from orchestai.training.rl.algorithms.formulas import Level, StepCounts
from orchestai.training.rl.algorithms.importance import Bound, effective_share, sampler_weights, weight_moments
from orchestai.types import AnyDecisions

_LARGEST_WEIGHT = 3.0
"""Of a decision that the sampler drew too rarely (`sampler_correction`)."""


@dataclass(frozen=True, eq=False)
class Batch:
    """Rows to learn from; (rows, slots) tensors on the CPU unless said otherwise, shorter rows padded on the right.

    Attributes:
        tasks, decisions: one per row.
        max_slots: most slots of the loss that a trajectory can have; the constant that `dr_grpo` divides by.
        logp, values: when the decisions were sampled; of the policy.
        sampler_logp: the same, of what drew the decisions.
        mask: bool; the slots in the loss.
        weights: of each decision in the policy loss, correcting for a sampler that is not quite the policy.
        advantages: of each decision.
        returns: targets of the value; for PPO.
        sequences: (rows,) int64; number of the trajectory that the row belongs to.
        lengths: (rows,) slots of that whole trajectory.
        boldness: share of the entropy bonus that counts.
    """

    tasks: tuple[Task, ...]
    decisions: tuple[AnyDecisions, ...]
    max_slots: int
    logp: Tensor
    sampler_logp: Tensor
    mask: Tensor
    values: Tensor
    weights: Tensor
    advantages: Tensor
    returns: Tensor
    sequences: Tensor
    lengths: Tensor
    boldness: float = 1.0

    def __len__(self) -> int:
        return len(self.tasks)

    def take(self, rows: Sequence[int]) -> Batch:
        """The rows of those numbers."""
        index = torch.tensor(rows, dtype=torch.long)
        some = replace(self, tasks=tuple(self.tasks[i] for i in rows), decisions=tuple(self.decisions[i] for i in rows))
        return some._each(lambda tensor: tensor[index])

    def without_loss(self) -> Batch:
        """The same rows with no slot in the loss."""
        return replace(self, mask=torch.zeros_like(self.mask))

    def to(self, device: torch.device) -> Batch:
        return self._each(lambda tensor: tensor.to(device))

    def counts(self) -> StepCounts:
        """What the rows add up to, if they are all of one optimizer step."""
        return StepCounts(len(self.sequences.unique()), int(self.mask.sum()), self.max_slots)

    def _each(self, change: Callable[[Tensor], Tensor]) -> Batch:
        changed: dict[str, Any] = {name: change(x) for name, x in vars(self).items() if isinstance(x, Tensor)}
        return replace(self, **changed)


def corrected(batch: Batch, logp: Tensor, config: SamplingConfig) -> tuple[Batch, Mapping[str, float]]:
    """The batch with those log-probabilities of the policy, and with weights for what the sampler drew too often or too
    rarely; and metrics about the weights.

    Args:
        logp: (rows, slots).
    """
    if config.sampler_correction is None:
        return replace(batch, logp=logp), {}
    level, bound = config.sampler_correction.split("_")
    level, bound = cast("Level", level), cast("Bound", bound)
    drawn, mask = batch.sampler_logp, batch.mask
    weights = sampler_weights(logp, drawn, mask, level, bound, _LARGEST_WEIGHT)
    plain = sampler_weights(logp, drawn, mask, level, "truncate", torch.inf)
    count = mask.sum().clamp(min=1)
    of_slots, of_rows = (weight_moments(logp - drawn, mask, each) for each in ("token", "sequence"))
    return replace(batch, logp=logp, weights=weights), {
        "sampler_ratio": float((plain * mask).sum() / count),
        "sampler_max_ratio": float((plain * mask).max()),
        "sampler_bounded_share": float((weights != plain).sum() / count),
        "sampler_ess": effective_share(of_slots),
        "sampler_ess_sequence": effective_share(of_rows),
    }
