"""What a policy learns from one batch: the loss of its rows, and optimizer steps in passes that fit in memory."""

from __future__ import annotations

import copy
import math
import random
from collections.abc import Mapping
from contextlib import nullcontext
from dataclasses import replace
from typing import NamedTuple

import torch
from accelerate import Accelerator
from torch import Tensor, nn

from orchestai.config import RlConfig
from orchestai.errors import UserError
from orchestai.training.distributed import together
from orchestai.training.learner import Learner, NotFiniteError, is_exact
from orchestai.training.rl import formulas
from orchestai.training.rl.advantages import Learning, value_rates
from orchestai.training.rl.batch import Batch, corrected, passes
from orchestai.training.rl.formulas import Recipe, StepCounts, effective_share, weight_moments
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
            with torch.no_grad(), (self._frozen is None and self.planner.reference()) or nullcontext():
                before = self._score(self.planner if self._frozen is None else self._frozen, rows).logp
            per_slot = formulas.kl(scores.logp, before) * ratio
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


class Updated(NamedTuple):
    """What an update did: how many optimizer steps changed the weights, and metrics; none without any step."""

    steps: int
    metrics: Mapping[str, float]


class _Step(NamedTuple):
    """An optimizer step: this process's sums and maxima over its passes, and the norm of the gradient of all."""

    metrics: torch.Tensor
    moments: torch.Tensor
    max_ratio: torch.Tensor
    max_deviation: torch.Tensor
    norm: float


class Updates:
    """Learns from batches, with whatever other processes share them.

    Old and new log-probabilities are computed in one dtype, so that every ratio is 1 at the first
    step. In float32 those of the sampler will do. Otherwise (weights in 16 or 4 bits, mixed precision) the module that
    learns computes them anew, before the first step and in the passes of the first iteration's steps, since there even
    the rows beside a row change its log-probability by more than bounds of a ratio are wide. `sampler_correction` then
    weighs these against the sampler's.

    Args:
        policy: the same in every process.

    Attributes:
        learner: of the policy's weights.
    """

    def __init__(
        self,
        accelerator: Accelerator,
        policy: Policy,
        recipe: Recipe,
        config: RlConfig,
        explore: frozenset[DecisionKind],
    ) -> None:
        policy.eval()
        self.learner = Learner(
            accelerator,
            policy,
            lambda learns: Objective(learns, recipe, config, explore).eval(),
            config,
            value_rates(policy, config) if recipe.baseline == "critic" else None,
        )
        self._accelerator = accelerator
        self._policy = policy
        self._config = config
        self._anew = not is_exact(policy.parameters(), accelerator)

    def learn(self, learning: Learning, update: int, boldness: float = 1.0) -> Updated:
        """Take the optimizer steps of one batch; metrics are means over them.

        Args:
            update: how many there were before; minibatches are drawn by it.
            boldness: share of the entropy bonus that counts.
        """
        if learning.batch is None or not learning.worthwhile:
            return Updated(0, {})
        batch = replace(learning.batch, boldness=boldness)
        sampler: Mapping[str, float] = {}
        if self._anew:
            batch, sampler = corrected(batch, self._scores(batch, update), self._config)
        steps = [
            self._step(batch.take(numbers), update)
            for iteration in range(self._config.num_iterations)
            for numbers in self._minibatches(len(batch), update, iteration)
        ]
        with together(self._accelerator, f"adding up the metrics of update {update + 1}"):
            summed = self._accelerator.reduce(sum(step.metrics for step in steps), "sum")
            of_slots, of_rows = self._accelerator.reduce(sum(step.moments for step in steps), "sum")
            largest = torch.stack([max(step.max_ratio for step in steps), steps[0].max_deviation])
            max_ratio, deviation = self._accelerator.gather(largest[None]).amax(0).tolist()
        self.learner.sync()
        norms = [step.norm for step in steps if math.isfinite(step.norm)]
        metrics = dict(zip(METRICS, (summed / len(steps)).tolist(), strict=True))
        metrics |= {"ess": effective_share(of_slots), "ess_sequence": effective_share(of_rows)}
        metrics |= {"max_ratio": max_ratio, "max_first_deviation": deviation, **sampler}
        if norms:
            metrics["grad_norm"] = sum(norms) / len(norms)
        if self._accelerator.scaler is not None:
            metrics["skipped_steps"] = len(steps) - len(norms)
        return Updated(len(norms), metrics)

    def _minibatches(self, rows: int, update: int, iteration: int) -> list[list[int]]:
        """Random parts of the rows; plans of one task stay neighbors in a part, so its instruction is read once."""
        order = list(range(rows))
        random.Random(f"{self._config.seed}/{update}/{iteration}").shuffle(order)
        size = math.ceil(rows / self._config.num_minibatches)
        return [sorted(order[i : i + size]) for i in range(0, rows, size)]

    def _passes(self, rows: Batch) -> tuple[list[list[int]], list[Batch]]:
        """The numbers of the rows of each of this process's passes, and the rows on its device.

        A process with fewer rows than another passes rows without loss, so that all make the same number of passes.
        """
        accelerator = self._accelerator
        mine = passes(rows.decisions, accelerator.num_processes, self._policy.cost, self._config)
        numbers = mine[accelerator.process_index]
        nothing = replace(rows.take([0]), mask=torch.zeros_like(rows.mask[:1]))
        parts = [rows.take(some) if some else nothing for some in numbers]
        return numbers, [part.to(accelerator.device) for part in parts]

    def _scores(self, batch: Batch, update: int) -> torch.Tensor:
        """(rows, slots) log-probabilities by the module that learns, as it now is; in every process."""
        accelerator = self._accelerator
        scores = torch.zeros(batch.logp.shape, device=accelerator.device)
        with together(accelerator, f"scoring the rows of update {update + 1}"):
            for rows in self._minibatches(len(batch), update, 0):
                numbers, parts = self._passes(batch.take(rows))
                found = self.learner.compute([(part, None) for part in parts])
                for some, scored in zip(numbers, found, strict=True):
                    if some:
                        scores[[rows[i] for i in some]] = scored
            return accelerator.reduce(scores, "sum").cpu()

    def _step(self, rows: Batch, update: int) -> _Step:
        """One optimizer step on `rows`."""
        counts = rows.counts()
        _, parts = self._passes(rows)
        try:
            with together(self._accelerator, f"taking a step of update {update + 1}"):
                results, norm = self.learner.step([(part, counts) for part in parts])
        except NotFiniteError:
            raise UserError(
                f"update {update + 1}: the gradient is not finite, and nothing was kept of its step: "
                "lower training.phase2_rl.learning_rate and go on from the last checkpoint; if this is the first "
                "update, its weights or its dtype are broken"
            ) from None
        metrics, moments, ratios, deviations = (torch.stack(list(found)) for found in zip(*results, strict=True))
        return _Step(metrics.sum(0), moments.sum(0), ratios.max(), deviations.max(), norm)
