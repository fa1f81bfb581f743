"""Phase 1 as a run: epoch after epoch into an output folder, and on from there; the same for every kind of planner."""

from __future__ import annotations

import json
import logging
import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

import torch
from accelerate import Accelerator
from rich.console import Console
from rich.progress import Progress
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR, ReduceLROnPlateau

from orchestai.config import OF_SERVING, BackendConfig, Config, Phase1Config, TasksConfig
from orchestai.data.training_file import TrainingExample, data_fingerprint, logged_reference
from orchestai.errors import UserError
from orchestai.planner.checkpoint import estimate_state_of, read_estimate, read_facts, reference_of, seen_by
from orchestai.planner.files import STATE_KEY, estimate_path, fingerprint_of, without_suffix
from orchestai.progress import console, open_progress
from orchestai.storage import artifacts
from orchestai.tasks.splits import NOTHING_SEEN, SeenTasks, divide
from orchestai.training.distributed import on_main
from orchestai.training.supervised.metrics import RunningMean
from orchestai.workers.pool import worker_cards

logger = logging.getLogger(__name__)
BEST, LAST, METRICS = "phase1_best.pth", "phase1_last.pth", "phase1_metrics.jsonl"
SEEN_BEFORE = "seen_before"
"""The key of a checkpoint with what the weights that its run began with had seen of tasks."""


@dataclass(frozen=True)
class Summary:
    """The best epoch, counted from 1, and its figures."""

    epoch: int
    val_loss: float
    metrics: Mapping[str, float]


@dataclass(frozen=True)
class Setup:
    """What a run begins with, whatever the planner is.

    Attributes:
        data: the training file; `examples` are all that it holds.
        resume: go on after the last epoch that was finished in `output_dir`.
        start: a planner to begin with; None begins anew. A run that is resumed knows it.
    """

    config: Config
    data: Path
    examples: Sequence[TrainingExample]
    output_dir: Path
    resume: bool
    accelerator: Accelerator
    progress: Progress
    start: Path | None = None

    @property
    def settings(self) -> Phase1Config:
        return self.config.training.phase1_supervised

    @property
    def seen_before(self) -> SeenTasks:
        """What the weights that the run began with had seen of tasks; the same when it is resumed."""
        if self.resume:
            known = read_facts(self.checkpoint(LAST))
            return SeenTasks.of_checkpoint(known, SEEN_BEFORE) if SEEN_BEFORE in known else NOTHING_SEEN
        return NOTHING_SEEN if self.start is None else seen_by(self.start)

    def checkpoint(self, name: str) -> Path:
        """Where the planner called `name` (`BEST` or `LAST`) is kept."""
        return _checkpoint(self.config, self.output_dir, name)


@dataclass(frozen=True)
class RunState:
    """What a run of phase 1 needs of the kind of planner that it trains.

    Attributes:
        epochs: train it.
        save: writes the planner of now to a path, and facts beside it.
        read: the facts that `save` wrote.
        learned, held_out: the examples.
    """

    epochs: Epochs
    save: Callable[[Path, Mapping[str, Any]], None]
    read: Callable[[Path], Mapping[str, Any]]
    learned: Sequence[TrainingExample]
    held_out: Sequence[TrainingExample]

    @property
    def seen(self) -> SeenTasks:
        """What its planner has seen of tasks."""
        return SeenTasks.of(*((one.asked for one in some) for some in (self.learned, self.held_out)))


def run(setup: Setup, state: RunState) -> Summary:
    """Train until the epochs are finished; keep the one whose plans of held-out examples are right most often."""
    accelerator, progress, settings, epochs = setup.accelerator, setup.progress, setup.settings, state.epochs
    saved = state.read(setup.checkpoint(LAST)) if setup.resume else {}
    identity = identity_of(setup.config, setup.data)
    before = setup.seen_before
    seen = state.seen | before | (SeenTasks.of_checkpoint(saved) if setup.resume else NOTHING_SEEN)
    if setup.start is not None:
        identity["start"] = fingerprint_of(setup.start)
    elif "start" in saved.get("identity", {}):
        identity["start"] = saved["identity"]["start"]
    history: list[dict[str, float]] = []
    if setup.resume:
        path, written = setup.checkpoint(LAST), setup.output_dir / METRICS
        for key, now in identity.items():
            former = saved["identity"].get(key)
            if isinstance(now, dict) and isinstance(former, dict):
                changed = [k for k in now if former.get(k) != now[k]]
            else:
                changed = [] if former == now else [f"{former!r} is now {now!r}"]
            if changed:
                remedy = "restore it, or start a new run in another output folder"
                if changed == ["num_epochs"]:
                    remedy = (
                        "with lr_schedule=linear the learning rate ends at 0 there, so this run can be made neither "
                        f"longer nor shorter; {remedy}"
                    )
                raise UserError(f"{path}: cannot resume, {key} has changed ({', '.join(changed)}); {remedy}")
        epochs.load_state_dict(saved)
        try:
            rows = [json.loads(line) for line in written.read_text().splitlines()]
        except (OSError, ValueError) as error:
            raise UserError(f"{written}: not readable ({error}); start a new run in another output folder") from None
        history = [row for row in rows if row["epoch"] <= epochs.epoch]
    # What was measured of workers, by the data or else by the planner that the run begins with, or goes on with
    reference, estimate = logged_reference(setup.data), read_estimate(estimate_path(setup.data))
    if (origin := setup.checkpoint(LAST) if setup.resume else setup.start) is not None:
        reference, estimate = reference or reference_of(origin), estimate or estimate_state_of(origin)
    known = {
        "seed": settings.seed,
        "identity": identity,
        "reward_reference": None if reference is None else asdict(reference),
        STATE_KEY: estimate,
        **before.facts(SEEN_BEFORE),
        **seen.facts(),
    }
    info = partial(artifacts.save_run_info, setup.output_dir, setup.config, command="phase1", seed=settings.seed)
    on_main(accelerator, partial(info, **identity), "beginning")
    line = progress.add_task("phase 1", total=settings.num_epochs, completed=epochs.epoch, status="")

    def write(facts: Mapping[str, Any]) -> None:
        artifacts.write_text(setup.output_dir / METRICS, "".join(json.dumps(row) + "\n" for row in history))
        if kept_epoch(history, epochs.plans_judged) is history[-1]:
            state.save(setup.checkpoint(BEST), {**facts, "val_loss": history[-1]["val_loss"]})
        state.save(setup.checkpoint(LAST), facts)

    while not epochs.finished:
        metrics = epochs.run_epoch(lambda share: progress.update(line, completed=epochs.epoch + share))
        history.append({"epoch": epochs.epoch, **metrics})
        facts = epochs.state_dict() | known
        on_main(accelerator, partial(write, facts), f"saving epoch {epochs.epoch}")
        accelerator.log(metrics, step=epochs.epoch)
        right = metrics.get("exact_plan", judged_by(metrics))
        shown = f"loss {metrics['train_loss']:.3f}  val {metrics['val_loss']:.3f}  right {right:.0%}"
        progress.update(line, completed=epochs.epoch, status=shown)
    accelerator.end_training()
    best = kept_epoch(history, epochs.plans_judged)
    summary = Summary(int(best["epoch"]), best["val_loss"], best)
    named = {
        "exact decomposition": "exact_decomposition",
        "exact plan": "exact_plan",
        "edge F1": "edge_f1",
        "raw validity": "raw_validity",
        "workers": "worker_accuracy",
        "types": "type_accuracy",
    }
    figures = ", ".join(f"{name} {best[key]:.1%}" for name, key in named.items() if key in best)
    progress.console.print(
        f"{setup.checkpoint(BEST)}: epoch {summary.epoch} on {len(state.learned)} examples; "
        f"on {len(state.held_out)} held out: loss {summary.val_loss:.3f}, {figures}",
        highlight=False,
    )
    return summary


def split_examples(
    examples: Sequence[TrainingExample], tasks: TasksConfig, data: Path, seen: SeenTasks = NOTHING_SEEN
) -> tuple[list[TrainingExample], list[TrainingExample]]:
    """Examples to learn from, and examples held out: those marked so, or, where none is, a share of the tasks.

    Examples for tests are in neither. What is reworded is where the task is that it was made from. Nothing is held out
    that is learned from, too, here or in an earlier training.

    Args:
        seen: what the weights have seen before.
    """
    held_out = [example for example in examples if example.split == "validation"]
    learned = [example for example in examples if example.split == "train"]
    if not held_out:
        known = sorted(learned, key=lambda example: example.augmented)
        asked: dict[str, str] = {}
        origins = [asked.setdefault(example.task_id or example.asked, example.asked) for example in known]
        parts = divide(origins, tasks, ("train", "validation"))
        learned, held_out = (
            [example for example, its in zip(known, parts, strict=True) if its == part]
            for part in ("train", "validation")
        )
    if not learned or not held_out:
        raise UserError(
            f"{data}: {len(learned)} examples to learn from and {len(held_out)} to validate on; both are needed, so "
            "collect executions of more tasks"
        )
    seen |= SeenTasks.of([example.asked for example in learned])
    unseen = [example for example in held_out if not seen.has_learned(example.asked)]
    if not unseen:
        raise UserError(
            f"{data}: nothing is left to validate on, as all {len(held_out)} examples held out are learned from, here "
            "or by the planner that this run begins with; hold other tasks out"
        )
    if len(unseen) < len(held_out):
        logger.warning(
            "%s: left out %d of %d examples held out, which are learned from, here or by the planner that this run "
            "begins with",
            data,
            len(held_out) - len(unseen),
            len(held_out),
        )
    return learned, unseen


def identity_of(config: Config, data: Path) -> dict[str, Any]:
    """What decides the course of a run, apart from how long it may go on."""
    settings = config.training.phase1_supervised
    length = {"num_epochs"} if settings.lr_schedule == "plateau" else set()
    of_phase2: Any = {"language": set(BackendConfig.model_fields)}  # who samples from a language model
    return {
        "planner": config.planner.model_dump(mode="json", exclude=dict.fromkeys(OF_SERVING, True) | of_phase2),
        "pool": [card.name for card in worker_cards(config.workers)],
        "phase1_supervised": settings.model_dump(mode="json", exclude=length),
        "data_fingerprint": data_fingerprint(data),
    }


def check_folder(config: Config, output_dir: Path, *, resume: bool) -> None:
    """Raise `UserError` where there is nothing to go on from, or a run of either kind of planner to overwrite."""
    last = _checkpoint(config, output_dir, LAST)
    artifacts.check_run(last, last.with_suffix(".pth"), last.with_suffix(""), resume=resume)


def _checkpoint(config: Config, output_dir: Path, name: str) -> Path:
    """A file, or a folder for a language model."""
    return without_suffix(output_dir / name) if config.planner.kind == "language" else output_dir / name


def progress_lines(accelerator: Accelerator) -> Progress:
    """Lines on the terminal; on the main process alone."""
    return open_progress(console=console if accelerator.is_main_process else Console(quiet=True))


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
        """
        rate, running = self.optimizer.param_groups[0]["lr"], RunningMean()
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
        metrics = {"learning_rate": rate, **running.means(), **self.validate()}
        self.epoch += 1
        if isinstance(self.scheduler, ReduceLROnPlateau):
            self.scheduler.step(metrics["val_loss"])
        judged = judged_by(metrics), -metrics["val_loss"]
        better = judged > self.best
        self.stale_epochs = 0 if better else self.stale_epochs + 1
        self.best = judged if better else self.best
        return metrics

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
