"""What a policy learns from one batch: optimizer steps on its rows, in passes that fit in memory."""

from __future__ import annotations

import math
import random
from collections.abc import Mapping
from dataclasses import replace
from typing import NamedTuple

import torch
from accelerate import Accelerator

from orchestai.config import RlConfig
from orchestai.errors import UserError
from orchestai.training.distributed import together
from orchestai.training.learner import Learner, NotFiniteError, is_exact
from orchestai.training.rl.advantages import Learning
from orchestai.training.rl.algorithms.critic import value_rates
from orchestai.training.rl.algorithms.importance import effective_share
from orchestai.training.rl.algorithms.objective import METRICS, Objective
from orchestai.training.rl.algorithms.recipes import Recipe
from orchestai.training.rl.batch import Batch, corrected
from orchestai.training.rl.microbatches import passes
from orchestai.training.rl.policy import Policy
from orchestai.types import DecisionKind


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

        Raises:
            UserError: a gradient, or a log-probability, is not finite.
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
        parts = [rows.take(some) if some else rows.take([0]).without_loss() for some in numbers]
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
