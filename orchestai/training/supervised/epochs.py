"""Epochs of phase 1, whatever the planner is; they touch no files."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import torch
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR, ReduceLROnPlateau

from orchestai.config import Phase1Config
from orchestai.errors import UserError
from orchestai.training.supervised.metrics import RunningMean

_PLATEAU = 0.03
"""An epoch that lowers the validation loss by a smaller share than this makes the learning rate fall to a third."""


def judged_by(metrics: Mapping[str, float]) -> float:
    """The share of plans that are right; where a pool alone is learned, of workers or else of types."""
    return next(metrics[key] for key in ("exact_decomposition", "worker_accuracy", "type_accuracy") if key in metrics)


def kept_epoch(history: Sequence[Mapping[str, float]], held_out: int) -> Mapping[str, float]:
    """The figures of the last epoch that had about as many right plans as any.

    A share that is lower by less than its standard error says little, and the later epoch has learned at a lower rate:
    where the third of four was ahead by two of 464 plans, the fourth found 50 instead of 40 % of the plans of other
    styles, and 84 instead of 74 % of longer compositions.

    Args:
        history: the figures of each epoch, in order.
        held_out: number of plans that they are shares of.
    """
    most = max(map(judged_by, history))
    standard_error = math.sqrt(most * (1 - most) / held_out)
    return [row for row in history if judged_by(row) >= most - standard_error][-1]


class Epochs(ABC):
    """Trains a planner on one set of plans and watches its loss on another.

    The course depends on the planner's weights, the data, the settings and PyTorch's random state alone, all of which
    `state_dict` holds or the caller keeps: a run that is stopped after an epoch and loaded goes on bit for bit.

    Args:
        optimizer: its learning rate follows the schedule.
        batches_per_epoch: what `batches` gives for every epoch.

    Attributes:
        epoch: epochs finished.
        best: what the best epoch so far was judged by: plans (or, of a pool alone, workers) that are right, then the
            loss, greater being better. The loss alone rises again while plans still become better, as a planner grows
            too sure of its few mistakes.
        stale_epochs: epochs since then.
    """

    def __init__(self, optimizer: Optimizer, settings: Phase1Config, batches_per_epoch: int) -> None:
        self.settings = settings
        self.optimizer = optimizer
        self.batches_per_epoch = batches_per_epoch
        batches = settings.num_epochs * batches_per_epoch
        self.scheduler = (
            ReduceLROnPlateau(self.optimizer, factor=1 / 3, patience=0, threshold=_PLATEAU)
            if settings.lr_schedule == "plateau"
            else LambdaLR(self.optimizer, lambda batch: max(0.0, 1 - batch / batches))
        )
        self.epoch = 0
        self.best = -1.0, -math.inf
        self.stale_epochs = 0

    @abstractmethod
    def batches(self, epoch: int) -> Iterable[list[int]]:
        """The rows of each optimizer step."""

    @abstractmethod
    def step(self, rows: list[int]) -> dict[str, float]:
        """Take one optimizer step, unless the loss is not finite; gives its losses, `total_loss` among them."""

    @abstractmethod
    def validate(self) -> dict[str, float]:
        """Losses (`val_loss`, ...) and metrics on the examples held out."""

    @property
    @abstractmethod
    def plans_judged(self) -> int:
        """Number of plans that `exact_decomposition` is a share of."""

    @property
    def finished(self) -> bool:
        """All epochs are done, or none of the last `patience` was the best so far."""
        return self.epoch >= self.settings.num_epochs or self.stale_epochs >= self.settings.patience

    def run_epoch(self, show: Callable[[float], None] = lambda share: None) -> dict[str, float]:
        """Train for one epoch and validate.

        Args:
            show: called after each step with the share of the epoch's steps that are done.

        Returns:
            `train_*` losses, `val_*` losses, accuracies and metrics of the plans, and the learning rate.

        Raises:
            UserError: the loss is not finite.
        """
        metrics = {"learning_rate": self.optimizer.param_groups[0]["lr"], **self._learn(show)}
        metrics |= self.validate()
        self.epoch += 1
        if isinstance(self.scheduler, ReduceLROnPlateau):
            self.scheduler.step(metrics["val_loss"])
        judged = judged_by(metrics), -metrics["val_loss"]
        better = judged > self.best
        self.stale_epochs = 0 if better else self.stale_epochs + 1
        self.best = judged if better else self.best
        return metrics

    def _learn(self, show: Callable[[float], None]) -> dict[str, float]:
        running = RunningMean()
        for done, rows in enumerate(self.batches(self.epoch), start=1):
            losses = self.step(rows)
            if not math.isfinite(losses["total_loss"]):
                raise UserError(
                    f"the loss became {losses['total_loss']} in epoch {self.epoch + 1}; "
                    "lower training.phase1_supervised.learning_rate"
                )
            if isinstance(self.scheduler, LambdaLR):
                self.scheduler.step()
            for name, value in losses.items():
                running.add(short("train", name), value, len(rows))
            show(done / self.batches_per_epoch)
        return running.means()

    def optimizer_state(self) -> dict[str, Any]:
        return self.optimizer.state_dict()

    def load_optimizer_state(self, state: Mapping[str, Any]) -> None:
        self.optimizer.load_state_dict(dict(state))

    def state_dict(self) -> dict[str, Any]:
        """Everything but the planner's own weights; plain types and tensors."""
        return {
            "epoch": self.epoch,
            "exact_decomposition": self.best[0],
            "val_loss": -self.best[1],
            "stale_epochs": self.stale_epochs,
            "optimizer_state_dict": self.optimizer_state(),
            "scheduler_state_dict": self.scheduler.state_dict(),
            "rng_states": {"cpu": torch.get_rng_state(), "cuda": torch.cuda.get_rng_state_all()},
        }

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Go on from `state_dict`; the planner's weights are the caller's affair."""
        self.epoch, self.stale_epochs = state["epoch"], state["stale_epochs"]
        self.best = state["exact_decomposition"], -state["val_loss"]
        self.load_optimizer_state(state["optimizer_state_dict"])
        self.scheduler.load_state_dict(state["scheduler_state_dict"])
        torch.set_rng_state(state["rng_states"]["cpu"])
        torch.cuda.set_rng_state_all(state["rng_states"]["cuda"])


def short(prefix: str, loss: str) -> str:
    """`total_loss` -> `train_loss`; `type_loss` -> `train_type_loss`."""
    return f"{prefix}_loss" if loss == "total_loss" else f"{prefix}_{loss}"
