"""How the planner of heads learns to imitate plans."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, cast

import torch
from torch import nn
from torch.optim import AdamW
from torch.utils.data import default_collate

from orchestai.config import Phase1Config
from orchestai.planner.length_batches import length_batches
from orchestai.planner.model import PlannerModel
from orchestai.planner.targets import PlanTargets
from orchestai.training.dataset import LengthGroupedBatches, WorkflowDataset
from orchestai.training.epochs import Epochs, short
from orchestai.training.figures import EdgeCounts, Tally, count_heads, count_plans


class Imitation(Epochs):
    """Trains the heads on one set of plans and watches their loss on another."""

    def __init__(
        self, planner: PlannerModel, train: WorkflowDataset, validation: WorkflowDataset, settings: Phase1Config
    ) -> None:
        self.planner = planner
        self.train = train
        self.validation = validation
        self._lengths = [len(planner.encoder.encode(instruction)) for instruction in train.instructions]
        self._learned = [parameter for parameter in planner.parameters() if parameter.requires_grad]
        optimizer = AdamW(self._learned, lr=settings.learning_rate, weight_decay=settings.weight_decay)
        super().__init__(optimizer, settings, -(-len(train) // settings.batch_size))

    def batches(self, epoch: int) -> LengthGroupedBatches:
        return LengthGroupedBatches(self._lengths, self.settings.batch_size, seed=self.settings.seed, epoch=epoch)

    def step(self, rows: list[int]) -> dict[str, float]:
        self.planner.train()
        instructions, targets = self._batch(self.train, rows)
        outputs = self.planner(instructions, targets)
        losses = self.planner.compute_supervised_loss(outputs, targets, self.settings.lambda_dag)
        values = {name: loss.item() for name, loss in losses.items()}
        if math.isfinite(values["total_loss"]):
            self.optimizer.zero_grad()
            losses["total_loss"].backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(self._learned, self.settings.max_grad_norm)
            self.optimizer.step()
        return values

    @torch.no_grad()
    def validate(self) -> dict[str, float]:
        """Losses and figures on the validation set, without dropout."""
        tally, edges = Tally(), EdgeCounts()
        self.planner.eval()
        lengths = {row: len(instruction) for row, instruction in enumerate(self.validation.instructions)}
        for rows in length_batches(lengths, self.settings.batch_size):
            instructions, targets = self._batch(self.validation, rows)
            outputs = self.planner(instructions, targets)
            losses = self.planner.compute_supervised_loss(outputs, targets, self.settings.lambda_dag)
            for name, value in losses.items():
                tally.add(short("val", name), value.item(), len(rows))
            count_heads(outputs, targets, tally, edges)
            count_plans(self.planner.plan_instructions(instructions), outputs, targets, tally)
        return {**tally.means(), **edges.figures()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from `state_dict` merged with the planner's `model_state_dict`."""
        self.planner.load_state_dict(state["model_state_dict"])
        super().load_state_dict(state)

    def _batch(self, dataset: WorkflowDataset, rows: list[int]) -> tuple[list[str], PlanTargets]:
        batch = default_collate([dataset[row] for row in rows])
        device = self.planner.card_features.device
        targets = {key: value.to(device) for key, value in batch["targets"].items()}
        return batch["instruction"], cast(PlanTargets, targets)
