"""Phase 1: imitate the best logged plans."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from torch import Tensor
from torch.utils.data import DataLoader, default_collate

from orchestai import artefacts
from orchestai.config import Config
from orchestai.errors import UserError
from orchestai.planner.checkpoint import read_checkpoint, save_planner
from orchestai.planner.model import PlannerModel
from orchestai.training.data_format import TrainingExample, load_training_data
from orchestai.training.dataset import LengthGroupedBatches, WorkflowDataset
from orchestai.training.phase1_metrics import head_hits, plan_figures
from orchestai.workers.pool import worker_cards

BEST, LAST, METRICS = "phase1_best.pth", "phase1_last.pth", "phase1_metrics.jsonl"
PLATEAU_FACTOR, PLATEAU_PATIENCE = 0.5, 2

console = Console(stderr=True)


@dataclass
class Progressed:
    """Where training stands.

    Attributes:
        epoch: epochs finished.
        best_loss: lowest validation loss so far.
        stale: epochs since.
        history: figures of each finished epoch.
    """

    epoch: int = 0
    best_loss: float = float("inf")
    stale: int = 0
    history: list[dict[str, float]] = field(default_factory=list)


def train(config: Config, *, data: Path, output_dir: Path, resume: bool = False) -> Progressed:
    """Train a new planner on a training file; the best and the last epoch are kept in `output_dir`.

    Args:
        resume: go on after the last finished epoch of a run on the same data and configuration; the losses are those
            of a run that was never interrupted.

    Raises:
        UserError: the data cannot be used, has no training or no validation examples, or there is nothing (or
            something else) to resume.
    """
    examples = load_training_data(data, config)
    training = [example for example in examples if example.split == "train"]
    validation = [example for example in examples if example.split == "validation"]
    if not training or not validation:
        raise UserError(
            f"{data}: {len(training)} training and {len(validation)} validation examples; both are needed: "
            "collect executions of more tasks"
        )
    seed = config.training.phase1_supervised.seed
    torch.manual_seed(seed)
    planner = PlannerModel(config.planner, worker_cards(config.workers))
    facts = {
        "seed": seed,
        "data_fingerprint": artefacts.fingerprint([example.model_dump(mode="json") for example in examples]),
    }
    artefacts.save_run_info(output_dir, config, command="phase1", examples=len(examples), **facts)
    trainer = SupervisedTrainer(planner, config, training, validation, output_dir, facts)
    if resume:
        trainer.load()
    return trainer.run()


class SupervisedTrainer:
    """AdamW, a plateau schedule and early stopping on the validation loss.

    Args:
        facts: what a resumed run must have in common with this one; written into the checkpoints.
    """

    def __init__(
        self,
        planner: PlannerModel,
        config: Config,
        training: Sequence[TrainingExample],
        validation: Sequence[TrainingExample],
        output_dir: Path,
        facts: dict[str, Any],
    ) -> None:
        self.planner = planner
        self.config = config.training.phase1_supervised
        self.progressed = Progressed()
        self._whole_config = config
        self._validation = list(validation)
        self._training_set = WorkflowDataset.from_examples(training, planner.config)
        self._validation_set = WorkflowDataset.from_examples(validation, planner.config)
        self._output = output_dir
        self._facts = facts
        parameters = [parameter for parameter in planner.parameters() if parameter.requires_grad]
        self._optimizer = torch.optim.AdamW(
            parameters, lr=self.config.learning_rate, weight_decay=self.config.weight_decay
        )
        self._scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(
            self._optimizer, factor=PLATEAU_FACTOR, patience=PLATEAU_PATIENCE
        )

    def run(self) -> Progressed:
        """Train to the last epoch, or until `patience` epochs brought no better validation loss."""
        progressed, config = self.progressed, self.config
        columns = (
            TextColumn("{task.description}"),
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TextColumn("{task.fields[figures]}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
        )
        with Progress(*columns, console=console) as bar:
            texts = {*self._training_set.instructions, *self._validation_set.instructions}
            line = bar.add_task("phase 1: read instructions", total=len(texts), figures="")
            for text in texts:
                self.planner.encoder.encode(text)
                bar.advance(line)
            line = bar.add_task("phase 1: epochs", total=config.num_epochs, completed=progressed.epoch, figures="")
            while progressed.epoch < config.num_epochs and progressed.stale < config.patience:
                started = time.perf_counter()
                figures = {f"train_{name}": value for name, value in self._epoch().items()}
                figures |= self.validate()
                figures |= {"seconds": time.perf_counter() - started, "learning_rate": self._rate()}
                self._finish_epoch(figures)
                shown = f"loss {figures['val_loss']:.3f}  exact plans {figures['val_exact_plan']:.0%}"
                bar.update(line, completed=progressed.epoch, figures=shown)
        best = min(progressed.history, key=lambda row: row["val_loss"])
        console.print(
            f"{self._output / BEST}: epoch {int(best['epoch'])} of {progressed.epoch}, validation loss "
            f"{best['val_loss']:.3f}, exact plans {best['val_exact_plan']:.1%}, edge F1 {best['val_edge_f1']:.3f}, "
            f"validity {best['val_raw_validity']:.1%} raw, {best['val_validity']:.1%} decoded",
            highlight=False,
        )
        return progressed

    def load(self) -> None:
        """Take up the last finished epoch.

        Raises:
            UserError: there is none, or it belongs to other data or another configuration.
        """
        path = self._output / LAST
        saved = read_checkpoint(path)
        for key, now in self._facts.items():
            if saved.get(key) != now:
                raise UserError(
                    f"{path}: {key} was {saved.get(key)!r} and is now {now!r}; restore it, or start anew elsewhere"
                )
        before = saved["config"]["training"]["phase1_supervised"] | {"planner": saved["config"]["planner"]}
        now = self.config.model_dump(mode="json") | {"planner": self.planner.config.model_dump(mode="json")}
        for key in now:
            if key != "num_epochs" and before.get(key) != now[key]:
                raise UserError(
                    f"{path}: {key} was {before.get(key)!r} and is now {now[key]!r}; restore it or start elsewhere"
                )
        self.planner.load_state_dict(saved["model_state_dict"])
        self._optimizer.load_state_dict(saved["optimizer_state_dict"])
        self._scheduler.load_state_dict(saved["scheduler_state_dict"])
        torch.set_rng_state(saved["rng_state"])
        self.progressed = Progressed(**saved["progressed"])

    def validate(self) -> dict[str, float]:
        """Losses and accuracies of each head on the validation examples, and figures of the plans as decoded."""
        self.planner.eval()
        losses: defaultdict[str, float] = defaultdict(float)
        hits: defaultdict[str, int] = defaultdict(int)
        known: defaultdict[str, int] = defaultdict(int)
        with torch.no_grad():
            for batch in DataLoader(self._validation_set, batch_size=self.config.batch_size):
                rows = len(batch["instruction"])
                outputs = self.planner(batch["instruction"], batch["targets"])
                parts = self.planner.compute_supervised_loss(outputs, batch["targets"], self.config.lambda_dag)
                for name, value in parts.items():
                    losses[name] += value.item() * rows
                for head, (right, total) in head_hits(outputs, batch["targets"]).items():
                    hits[head] += right
                    known[head] += total
        plans = self.planner.plan_instructions(self._validation_set.instructions)
        figures = {name: value / len(self._validation) for name, value in losses.items()}
        figures |= {f"{head}_accuracy": hits[head] / max(known[head], 1) for head in hits}
        figures |= plan_figures(plans, self._validation)
        return {"val_loss": figures["total_loss"]} | {f"val_{name}": value for name, value in figures.items()}

    def _epoch(self) -> dict[str, float]:
        self.planner.train()
        order = LengthGroupedBatches(
            [len(text) for text in self._training_set.instructions],
            self.config.batch_size,
            seed=self.config.seed,
            epoch=self.progressed.epoch,
        )
        sums: defaultdict[str, float] = defaultdict(float)
        for indices in order:
            batch = default_collate([self._training_set[i] for i in indices])
            outputs = self.planner(batch["instruction"], batch["targets"])
            losses = self.planner.compute_supervised_loss(outputs, batch["targets"], self.config.lambda_dag)
            self._step(losses["total_loss"])
            for name, value in losses.items():
                sums[name] += value.item() * len(indices)
        return {name: value / len(self._training_set) for name, value in sums.items()}

    def _step(self, loss: Tensor) -> None:
        if not torch.isfinite(loss):
            raise UserError(
                f"phase 1: the loss became {loss.item()} in epoch {self.progressed.epoch + 1}; "
                "lower training.phase1_supervised.learning_rate"
            )
        self._optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.planner.parameters(), self.config.max_grad_norm)
        self._optimizer.step()

    def _finish_epoch(self, figures: dict[str, float]) -> None:
        progressed = self.progressed
        self._scheduler.step(figures["val_loss"])
        progressed.epoch += 1
        progressed.history.append({"epoch": float(progressed.epoch), **figures})
        better = figures["val_loss"] < progressed.best_loss
        progressed.stale = 0 if better else progressed.stale + 1
        progressed.best_loss = min(figures["val_loss"], progressed.best_loss)
        if better:
            self._save(BEST, figures["val_loss"])
        self._save(
            LAST,
            figures["val_loss"],
            scheduler_state_dict=self._scheduler.state_dict(),
            rng_state=torch.get_rng_state(),
            progressed=asdict(progressed),
        )
        lines = "".join(json.dumps(row) + "\n" for row in progressed.history)
        artefacts.write_text(self._output / METRICS, lines)

    def _save(self, name: str, val_loss: float, **state: Any) -> None:
        save_planner(
            self._output / name,
            self.planner,
            self._whole_config,
            epoch=self.progressed.epoch,
            val_loss=val_loss,
            optimizer_state_dict=self._optimizer.state_dict(),
            **self._facts,
            **state,
        )

    def _rate(self) -> float:
        return float(self._optimizer.param_groups[0]["lr"])
