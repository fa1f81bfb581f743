"""How the planner of heads learns to imitate plans; steps that are given have batches of their own."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.utils.data import default_collate

from orchestai.config import Phase1Config
from orchestai.errors import UserError
from orchestai.lm.length_batches import length_batches
from orchestai.planner.slots.losses import LinkOutputs, PlannerOutputs
from orchestai.planner.slots.model import NO_LINKER, PlannerModel
from orchestai.planner.slots.targets import PlanTargets
from orchestai.training.malloc_trim import FreedMemory
from orchestai.training.optimizers import open_optimizer
from orchestai.training.supervised.dataset import LengthGroupedBatches, WorkflowDataset
from orchestai.training.supervised.epochs import Epochs, short
from orchestai.training.supervised.metrics import EdgeCounts, RunningMean, count_heads, count_links, count_plans
from orchestai.training.supervised.mixture_sampling import draw


class Imitation(Epochs):
    """Trains the heads on one set of plans and watches their loss on another."""

    def __init__(
        self, planner: PlannerModel, train: WorkflowDataset, validation: WorkflowDataset, settings: Phase1Config
    ) -> None:
        self.planner = planner
        self.train = train
        self.validation = validation
        if planner.linker is None and any(train.given):
            raise UserError(NO_LINKER)
        self._kinds = [[i for i, given in enumerate(train.given) if given == kind] for kind in (False, True)]
        self._lengths = [len(planner.encoder.encode(instruction)) for instruction in train.instructions]
        self._learned = [parameter for parameter in planner.parameters() if parameter.requires_grad]
        self._freed = FreedMemory()
        optimizer = open_optimizer(self._learned, settings)
        super().__init__(optimizer, settings, sum(-(-len(kind) // settings.batch_size) for kind in self._kinds))

    def batches(self, epoch: int) -> Iterator[list[int]]:
        """Each holds either steps that are given or steps that are to be found; the two kinds alternate evenly."""
        found: list[tuple[float, list[int]]] = []
        seed = self.settings.seed
        for kind in self._kinds:
            drawn = draw([self.train.sources[i] for i in kind], self.settings.source_temperature, seed, epoch)
            lengths = [self._lengths[kind[i]] for i in drawn]
            sampler = LengthGroupedBatches(lengths, self.settings.batch_size, seed=seed, epoch=epoch)
            found += [((k + 0.5) / len(sampler), [kind[drawn[i]] for i in rows]) for k, rows in enumerate(sampler)]
        yield from (rows for _, rows in sorted(found, key=lambda pair: pair[0]))

    def step(self, rows: list[int]) -> dict[str, float]:
        self.planner.train()
        instructions, targets = self._batch(self.train, rows)
        _, losses = (self._link if targets["given"].any() else self._decode)(instructions, targets)
        values = {name: loss.item() for name, loss in losses.items()}
        if math.isfinite(values["total_loss"]):
            self.optimizer.zero_grad()
            losses["total_loss"].backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(self._learned, self.settings.max_grad_norm)
            self.optimizer.step()
        self._freed.give_back()
        return values

    @torch.no_grad()
    def validate(self) -> dict[str, float]:
        """Losses and metrics on the validation set, without dropout."""
        running, edges = RunningMean(), EdgeCounts()
        self.planner.eval()
        for rows in self._validation_batches():
            instructions, targets = self._batch(self.validation, rows)
            if targets["given"].any():
                linked, losses = self._link(instructions, targets)
                count_links(linked, targets, running, edges)
            else:
                outputs, losses = self._decode(instructions, targets)
                count_heads(outputs, targets, running, edges)
                count_plans(self.planner.plan_instructions(instructions), outputs, targets, running)
            for name, value in losses.items():
                running.add(short("val", name), value.item(), len(rows))
        return {**running.means(), **edges.metrics()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from `state_dict` merged with the planner's `model_state_dict`."""
        self.planner.load_state_dict(state["model_state_dict"])
        super().load_state_dict(state)

    def _link(self, instructions: list[str], targets: PlanTargets) -> tuple[LinkOutputs, dict[str, Tensor]]:
        outputs = self.planner.link(instructions, targets)
        return outputs, self.planner.compute_link_loss(outputs, targets, self.settings.lambda_dag)

    def _decode(self, instructions: list[str], targets: PlanTargets) -> tuple[PlannerOutputs, dict[str, Tensor]]:
        outputs = self.planner(instructions, targets)
        return outputs, self.planner.compute_supervised_loss(outputs, targets, self.settings.lambda_dag)

    def _validation_batches(self) -> Iterator[list[int]]:
        for kind in (False, True):
            lengths = {
                row: len(instruction)
                for row, instruction in enumerate(self.validation.instructions)
                if self.validation.given[row] == kind
            }
            yield from length_batches(lengths, self.settings.batch_size)

    def _batch(self, dataset: WorkflowDataset, rows: list[int]) -> tuple[list[str], PlanTargets]:
        batch = default_collate([dataset[row] for row in rows])
        device = self.planner.card_features.device
        targets = {key: value.to(device) for key, value in batch["targets"].items()}
        return batch["instruction"], cast(PlanTargets, targets)
