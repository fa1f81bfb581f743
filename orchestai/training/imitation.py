"""How the planner of heads learns to imitate plans."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import torch
from torch.utils.data import default_collate

from orchestai.config import Phase1Config
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
        super().__init__(planner, settings, -(-len(train) // settings.batch_size))

    def batches(self, epoch: int) -> LengthGroupedBatches:
        return LengthGroupedBatches(self._lengths, self.settings.batch_size, seed=self.settings.seed, epoch=epoch)

    def backward(self, rows: list[int]) -> dict[str, float]:
        instructions, targets = self._batch(self.train, rows)
        outputs = self.planner(instructions, targets)
        losses = self.planner.compute_supervised_loss(outputs, targets, self.settings.lambda_dag)
        losses["total_loss"].backward()  # type: ignore[no-untyped-call]
        return {name: loss.item() for name, loss in losses.items()}

    @torch.no_grad()
    def validate(self) -> dict[str, float]:
        """Losses and figures on the validation set, without dropout."""
        tally, edges = Tally(), EdgeCounts()
        self.planner.eval()
        order = sorted(range(len(self.validation)), key=lambda i: len(self.validation.instructions[i]))
        for start in range(0, len(order), self.settings.batch_size):
            rows = order[start : start + self.settings.batch_size]
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
