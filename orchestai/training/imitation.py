"""The training loop of phase 1, epoch by epoch; it touches no files."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, cast

import torch
from torch.optim import AdamW
from torch.optim.lr_scheduler import LambdaLR, ReduceLROnPlateau
from torch.utils.data import default_collate

from orchestai.config import Phase1Config
from orchestai.errors import UserError
from orchestai.planner.model import PlannerModel
from orchestai.planner.targets import PlanTargets
from orchestai.training.dataset import LengthGroupedBatches, WorkflowDataset
from orchestai.training.figures import EdgeCounts, Tally, count_heads, count_plans

_PLATEAU = 0.03
"""An epoch that lowers the validation loss by a smaller share than this makes the learning rate fall to a third."""


class Imitation:
    """Trains a planner on one set of plans and watches its loss on another.

    The course depends on the planner's weights, the data, the settings and PyTorch's random state alone, all of which
    `state_dict` holds or the caller keeps: a run that is stopped after an epoch and loaded goes on bit for bit.

    Attributes:
        epoch: epochs finished.
        best_loss: least validation loss so far.
        stale_epochs: epochs since then.
    """

    def __init__(
        self, planner: PlannerModel, train: WorkflowDataset, validation: WorkflowDataset, settings: Phase1Config
    ) -> None:
        self.planner = planner
        self.train = train
        self.validation = validation
        self.settings = settings
        self._lengths = [len(planner.encoder.encode(instruction)) for instruction in train.instructions]
        self.optimizer = AdamW(planner.parameters(), lr=settings.learning_rate, weight_decay=settings.weight_decay)
        batches = settings.num_epochs * len(self._batches(0))
        self.scheduler = (
            ReduceLROnPlateau(self.optimizer, factor=1 / 3, patience=0, threshold=_PLATEAU)
            if settings.lr_schedule == "plateau"
            else LambdaLR(self.optimizer, lambda batch: max(0.0, 1 - batch / batches))
        )
        self.epoch = 0
        self.best_loss = math.inf
        self.stale_epochs = 0

    @property
    def finished(self) -> bool:
        """All epochs are done, or the validation loss has not fallen for `patience` epochs."""
        return self.epoch >= self.settings.num_epochs or self.stale_epochs >= self.settings.patience

    def run_epoch(self) -> dict[str, float]:
        """Train for one epoch and validate.

        Returns:
            `train_*` losses, `val_*` losses, accuracies and figures of the plans, and the learning rate.

        Raises:
            UserError: the loss is not finite.
        """
        figures = {"learning_rate": self.optimizer.param_groups[0]["lr"], **self._learn()}
        figures |= self.validate()
        self.epoch += 1
        if isinstance(self.scheduler, ReduceLROnPlateau):
            self.scheduler.step(figures["val_loss"])
        self.stale_epochs = 0 if figures["val_loss"] < self.best_loss else self.stale_epochs + 1
        self.best_loss = min(self.best_loss, figures["val_loss"])
        return figures

    def _learn(self) -> dict[str, float]:
        settings = self.settings
        tally = Tally()
        self.planner.train()
        for rows in self._batches(self.epoch):
            instructions, targets = self._batch(self.train, rows)
            outputs = self.planner(instructions, targets)
            losses = self.planner.compute_supervised_loss(outputs, targets, settings.lambda_dag)
            loss = losses["total_loss"]
            if not torch.isfinite(loss):
                raise UserError(
                    f"the loss became {loss.item()} in epoch {self.epoch + 1}; "
                    "lower training.phase1_supervised.learning_rate"
                )
            self.optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.planner.parameters(), settings.max_grad_norm)
            self.optimizer.step()
            if isinstance(self.scheduler, LambdaLR):
                self.scheduler.step()
            for name, value in losses.items():
                tally.add(_short("train", name), value.item(), len(rows))
        return tally.means()

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
                tally.add(_short("val", name), value.item(), len(rows))
            count_heads(outputs, targets, tally, edges)
            count_plans(self.planner.plan_instructions(instructions), outputs, targets, tally)
        return {**tally.means(), **edges.figures()}

    def state_dict(self) -> dict[str, Any]:
        """Everything but the planner's own weights; plain types and tensors."""
        return {
            "epoch": self.epoch,
            "val_loss": self.best_loss,
            "stale_epochs": self.stale_epochs,
            "optimizer_state_dict": self.optimizer.state_dict(),
            "scheduler_state_dict": self.scheduler.state_dict(),
            "rng_states": {"cpu": torch.get_rng_state(), "cuda": torch.cuda.get_rng_state_all()},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from `state_dict` merged with the planner's `model_state_dict`."""
        self.epoch, self.best_loss, self.stale_epochs = state["epoch"], state["val_loss"], state["stale_epochs"]
        self.planner.load_state_dict(state["model_state_dict"])
        self.optimizer.load_state_dict(state["optimizer_state_dict"])
        self.scheduler.load_state_dict(state["scheduler_state_dict"])
        torch.set_rng_state(state["rng_states"]["cpu"])
        torch.cuda.set_rng_state_all(state["rng_states"]["cuda"])

    def _batches(self, epoch: int) -> LengthGroupedBatches:
        return LengthGroupedBatches(self._lengths, self.settings.batch_size, seed=self.settings.seed, epoch=epoch)

    def _batch(self, dataset: WorkflowDataset, rows: list[int]) -> tuple[list[str], PlanTargets]:
        batch = default_collate([dataset[row] for row in rows])
        device = self.planner.card_features.device
        targets = {key: value.to(device) for key, value in batch["targets"].items()}
        return batch["instruction"], cast(PlanTargets, targets)


def _short(prefix: str, loss: str) -> str:
    """`total_loss` -> `train_loss`; `type_loss` -> `train_type_loss`."""
    return f"{prefix}_loss" if loss == "total_loss" else f"{prefix}_{loss}"
