"""The loss of some rows of an optimizer step."""

from __future__ import annotations

import copy
from contextlib import nullcontext
from typing import NamedTuple

import torch
from torch import Tensor, nn

from orchestai.config import RlConfig
from orchestai.training.rl.algorithms import formulas
from orchestai.training.rl.algorithms.formulas import StepCounts
from orchestai.training.rl.algorithms.importance import weight_moments
from orchestai.training.rl.algorithms.recipes import Recipe
from orchestai.training.rl.batch import Batch
from orchestai.training.rl.policy import Policy
from orchestai.types import DecisionKind

_VALUE_CLIP = 0.2
"""PPO: clip range of the value, in units of a success."""
METRICS = (
    "loss",
    "policy_loss",
    "value_loss",
    "entropy",
    "kl",
    "approximate_kl",
    "clip_low_share",
    "clip_high_share",
    "ratio",
)


class Part(NamedTuple):
    """What some rows contribute.

    Attributes:
        loss: scalar, with gradient.
        metrics: (METRICS,) shares of the step's means, without gradient; those of all its rows add up.
        moments: (2, 3) `weight_moments` of the ratios, per slot and per row.
        max_ratio: scalar.
        max_deviation: scalar; largest distance of a ratio from 1.
    """

    loss: Tensor
    metrics: Tensor
    moments: Tensor
    max_ratio: Tensor
    max_deviation: Tensor


class RowScores(NamedTuple):
    """What a policy thinks of some rows; see `Scores`."""

    logp: Tensor
    entropy: Tensor
    value: Tensor


class Objective(nn.Module):
    """Policy loss + KL to the planner as it is now + value loss - entropy bonus.

    The KL is weighted by the ratio, so its gradient is that of the divergence also where the samples are stale
    (DeepSeek-V3.2, arXiv 2512.02556, section 3.1).

    A module, so that one forward and one backward pass go through whatever wraps it for several processes.
    """

    def __init__(
        self, planner: Policy, recipe: Recipe, config: RlConfig, explore: frozenset[DecisionKind] = frozenset()
    ) -> None:
        super().__init__()
        self.planner = planner
        self._frozen: Policy | None = None
        if config.kl_coef > 0 and planner.reference() is None:
            self._frozen = copy.deepcopy(planner)
            self._frozen.requires_grad_(False)
        self._recipe = recipe
        self._config = config
        self._explore = explore
        self._bounds = recipe.bounds_of(config)

    def forward(self, rows: Batch, counts: StepCounts | None) -> Part | Tensor:
        """The rows' share of the loss of an optimizer step, or their log-probabilities.

        Args:
            counts: of the step; None for (rows, slots) log-probabilities.
        """
        scores = self._score(self.planner, rows)
        if counts is None:
            return scores.logp
        return self._part(rows, counts, scores)

    def _part(self, rows: Batch, counts: StepCounts, scores: RowScores) -> Part:
        config, recipe, mask = self._config, self._recipe, rows.mask
        ratio = formulas.policy_ratio(scores.logp, rows.logp, mask, recipe.level)
        policy = rows.weights * formulas.policy_loss(
            recipe.surrogate, scores.logp, ratio, rows.advantages, self._bounds
        )

        def mean(per_slot: Tensor) -> Tensor:
            return formulas.aggregate(per_slot, mask, "slot_mean", counts, rows.lengths)

        policy_loss = formulas.aggregate(policy, mask, recipe.mode, counts, rows.lengths)
        entropy = mean(scores.entropy)
        loss = policy_loss - config.entropy_coef * rows.boldness * entropy
        divergence = value_loss = torch.zeros_like(loss)
        if config.kl_coef > 0:
            per_slot = formulas.kl(scores.logp, self._reference_logp(rows)) * ratio
            divergence = mean(per_slot)
            loss = loss + config.kl_coef * formulas.aggregate(per_slot, mask, recipe.mode, counts, rows.lengths)
        if recipe.baseline == "critic":
            value_loss = mean(formulas.value_loss(scores.value, rows.values, rows.returns, _VALUE_CLIP))
            loss = loss + config.value_coef * value_loss
        clip_low, clip_high = formulas.bounded(recipe.surrogate, ratio, rows.advantages, self._bounds)
        metrics = {
            "loss": loss,
            "policy_loss": policy_loss,
            "value_loss": value_loss,
            "entropy": entropy,
            "kl": divergence,
            "approximate_kl": mean(formulas.kl(rows.logp, scores.logp, "k1")),
            "clip_low_share": mean(clip_low.float()),
            "clip_high_share": mean(clip_high.float()),
            "ratio": mean(ratio),
        }
        summary = torch.stack([metrics[name].detach().float() for name in METRICS])
        found = ratio.detach()[mask]
        largest = (found.max(), (found - 1).abs().max()) if len(found) else (loss.new_zeros(()), loss.new_zeros(()))
        moved = (scores.logp - rows.logp).detach()
        moments = torch.stack([weight_moments(moved, mask, level) for level in ("token", "sequence")]).float()
        return Part(loss, summary, moments, *largest)

    @torch.no_grad()
    def _reference_logp(self, rows: Batch) -> Tensor:
        if self._frozen is not None:
            return self._score(self._frozen, rows).logp
        with self.planner.reference() or nullcontext():
            return self._score(self.planner, rows).logp

    def _score(self, planner: Policy, rows: Batch) -> RowScores:
        """The policy's scores, as wide as the rows: their longest may be in another part of the batch."""
        scores = planner.score(
            rows.tasks,
            rows.decisions,
            explore=self._explore,
            temperature=self._config.temperature,
        )
        missing = rows.mask.shape[1] - scores.logp.shape[1]
        if missing < 0:
            raise ValueError(f"the policy scored {scores.logp.shape[1]} slots of rows that have {rows.mask.shape[1]}")
        return RowScores(*(nn.functional.pad(x, (0, missing)) for x in (scores.logp, scores.entropy, scores.value)))
