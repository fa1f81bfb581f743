"""The loss of some rows of an optimiser step."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from orchestai.config import Phase2Config
from orchestai.planner.base import Scores
from orchestai.training.rl import maths
from orchestai.training.rl.batch import Batch
from orchestai.training.rl.maths import Counts
from orchestai.training.rl.policy import Policy
from orchestai.training.rl.recipes import Recipe

FIGURES = ("loss", "policy_loss", "value_loss", "entropy", "kl", "approximate_kl", "clip_share", "ratio")


class Part(NamedTuple):
    """What some rows contribute.

    Attributes:
        loss: scalar, with gradient.
        figures: (FIGURES,) shares of the step's means, without gradient; those of all its rows add up.
        max_ratio: scalar.
    """

    loss: Tensor
    figures: Tensor
    max_ratio: Tensor


class Objective(nn.Module):
    """Policy loss + KL to the reference + value loss - entropy bonus.

    A module, so that one forward and one backward pass go through whatever wraps it for several processes.

    Args:
        reference: frozen policy that the planner is held near; needed where `kl_coef` is not 0.
    """

    def __init__(self, planner: Policy, reference: Policy | None, recipe: Recipe, config: Phase2Config) -> None:
        super().__init__()
        self.planner = planner
        self.reference = reference
        self._recipe = recipe
        self._config = config

    def forward(self, rows: Batch, counts: Counts) -> Part:
        """The rows' share of the loss of the optimiser step that `counts` describes."""
        config, recipe, mask = self._config, self._recipe, rows.mask
        scores = self._score(self.planner, rows)
        low, high = config.epsilon, config.epsilon_high or config.epsilon
        ratio = maths.policy_ratio(scores.logp, rows.logp, mask, recipe.level)
        policy = maths.policy_loss(
            recipe.surrogate,
            scores.logp,
            ratio,
            rows.advantages,
            clip_low=low,
            clip_high=high,
            max_ratio=config.max_ratio,
        )

        def mean(per_slot: Tensor) -> Tensor:
            return maths.aggregate(per_slot, mask, "slot_mean", counts)

        policy_loss = maths.aggregate(policy, mask, recipe.mode, counts, rows.rollout_slots)
        entropy = mean(scores.entropy)
        loss = policy_loss - config.entropy_coef * entropy
        divergence = value_loss = torch.zeros_like(loss)
        if self.reference is not None:
            with torch.no_grad():
                reference_logp = self._score(self.reference, rows).logp
            per_slot = maths.kl(scores.logp, reference_logp)
            divergence = mean(per_slot)
            loss = loss + config.kl_coef * maths.aggregate(per_slot, mask, recipe.mode, counts, rows.rollout_slots)
        if recipe.baseline == "critic":
            value_loss = mean(maths.value_loss(scores.value, rows.values, rows.returns, config.value_clip))
            loss = loss + config.value_coef * value_loss
        figures = {
            "loss": loss,
            "policy_loss": policy_loss,
            "value_loss": value_loss,
            "entropy": entropy,
            "kl": divergence,
            "approximate_kl": mean(maths.kl(rows.logp, scores.logp, "k1")),
            "clip_share": mean(maths.clipped(ratio, rows.advantages, low, high).float()),
            "ratio": mean(ratio),
        }
        summary = torch.stack([figures[name].detach().float() for name in FIGURES])
        return Part(loss, summary, torch.where(mask, ratio, 0.0).detach().max())

    def _score(self, planner: Policy, rows: Batch) -> Scores:
        return planner.score(
            rows.tasks,
            rows.decisions,
            explore=frozenset(self._config.explore),
            temperature=self._config.temperature,
        )
