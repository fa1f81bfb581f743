"""Phase 1 as a run: epoch after epoch into an output folder, and on from there; the same for every kind of planner."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from accelerate import Accelerator
from rich.console import Console
from rich.progress import Progress

from orchestai.config import Config, TasksConfig
from orchestai.data.training_file import TrainingExample, examples_fingerprint, logged_reference
from orchestai.errors import UserError
from orchestai.progress import open_progress
from orchestai.storage import artifacts
from orchestai.tasks.seen import SeenTasks
from orchestai.tasks.splits import divide
from orchestai.training.distributed import on_main
from orchestai.training.supervised.epochs import Epochs
from orchestai.workers.pool import worker_cards

BEST, LAST, METRICS = "phase1_best.pth", "phase1_last.pth", "phase1_metrics.jsonl"


@dataclass(frozen=True)
class Summary:
    """The best epoch, counted from 1, and its figures."""

    epoch: int
    val_loss: float
    metrics: Mapping[str, float]


@dataclass(frozen=True)
class RunState:
    """What a run of phase 1 needs of the kind of planner that it trains.

    Attributes:
        epochs: train it.
        save: writes the planner of now, and facts beside it; `best` and `last` are the paths.
        read: the facts that `save` wrote to `last`.
        learned, held_out: the examples.
    """

    epochs: Epochs
    best: Path
    last: Path
    save: Callable[[Path, Mapping[str, Any]], None]
    read: Callable[[Path], Mapping[str, Any]]
    learned: Sequence[TrainingExample]
    held_out: Sequence[TrainingExample]

    @property
    def seen(self) -> SeenTasks:
        """What its planner has seen of tasks."""
        return SeenTasks.of(*((example.asked for example in some) for some in (self.learned, self.held_out)))


def run(
    state: RunState,
    config: Config,
    output_dir: Path,
    identity: Mapping[str, Any],
    progress: Progress,
    accelerator: Accelerator,
    *,
    resume: bool,
) -> Summary:
    """Train until the epochs are finished; keep the one with the least validation loss.

    Args:
        identity: what a run that goes on must have in common with the one that it goes on with.
        resume: go on after the last epoch that was finished in `output_dir`, as if nothing had happened in between.

    Raises:
        UserError: there is nothing, or something else, to resume, the loss is no longer finite, or a file cannot be
            written.
    """
    seed = config.training.phase1_supervised.seed
    epochs = state.epochs
    history = _resume(state, output_dir, identity) if resume else []
    seen = state.seen.facts()
    on_main(
        accelerator,
        lambda: artifacts.save_run_info(output_dir, config, command="phase1", seed=seed, **identity),
        "beginning",
    )
    total = config.training.phase1_supervised.num_epochs
    line = progress.add_task("phase 1", total=total, completed=epochs.epoch, status="")
    while not epochs.finished:
        metrics = epochs.run_epoch(lambda share: progress.update(line, completed=epochs.epoch + share))
        history.append({"epoch": epochs.epoch, **metrics})
        facts = epochs.state_dict() | {"seed": seed, "identity": identity} | seen
        on_main(accelerator, partial(_save, state, output_dir, history, facts), f"saving epoch {epochs.epoch}")
        accelerator.log(metrics, step=epochs.epoch)
        shown = f"loss {metrics['train_loss']:.3f}  val {metrics['val_loss']:.3f}  exact {metrics['exact_plan']:.0%}"
        progress.update(line, completed=epochs.epoch, status=shown)
    accelerator.end_training()
    best = min(history, key=lambda row: row["val_loss"])
    summary = Summary(int(best["epoch"]), best["val_loss"], best)
    progress.console.print(_said(state, summary), highlight=False)
    return summary


def _save(state: RunState, output_dir: Path, history: Sequence[Mapping[str, Any]], facts: Mapping[str, Any]) -> None:
    artifacts.write_text(output_dir / METRICS, "".join(json.dumps(row) + "\n" for row in history))
    if state.epochs.stale_epochs == 0:
        state.save(state.best, facts)
    state.save(state.last, facts)


def split_examples(
    examples: Sequence[TrainingExample], tasks: TasksConfig, data: Path
) -> tuple[list[TrainingExample], list[TrainingExample]]:
    """Examples to learn from, and examples held out: those marked so, or, where none is, a share of the tasks.

    Examples for tests are in neither. What is reworded is where the task is that it was made from.

    Raises:
        UserError: nothing would be left for one of them.
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
    return learned, held_out


def identity_of(config: Config, examples: Sequence[TrainingExample]) -> dict[str, Any]:
    """What decides the course of a run, apart from how long it may go on."""
    settings = config.training.phase1_supervised
    length = {"num_epochs"} if settings.lr_schedule == "plateau" else set()
    return {
        "planner": config.planner.model_dump(mode="json"),
        "pool": [card.name for card in worker_cards(config.workers)],
        "phase1_supervised": settings.model_dump(mode="json", exclude=length),
        "data_fingerprint": examples_fingerprint(examples),
    }


def reference_fact(data: Path) -> dict[str, Any] | None:
    """The reference of the training file's executions, as checkpoints keep it for phase 2."""
    reference = logged_reference(data)
    return None if reference is None else asdict(reference)


def check_folder(last: Path, *, resume: bool) -> None:
    """Raise `UserError` where there is nothing to go on from, or a run of either kind of planner to overwrite."""
    artifacts.check_run(last, last.with_suffix(".pth"), last.with_suffix(""), resume=resume)


def progress_lines(accelerator: Accelerator) -> Progress:
    """Lines on the terminal; on the main process alone."""
    return open_progress(console=Console(stderr=True, quiet=not accelerator.is_main_process))


def _resume(state: RunState, output_dir: Path, identity: Mapping[str, Any]) -> list[dict[str, float]]:
    """Put the last state into the epochs; gives the metrics of those that are done."""
    path = state.last
    saved = state.read(path)
    for key, now in identity.items():
        before = saved.get("identity", {}).get(key)
        if before != now:
            changed = (
                [k for k in now if before.get(k) != now[k]]
                if isinstance(now, dict) and isinstance(before, dict)
                else [f"{before!r} is now {now!r}"]
            )
            remedy = "restore it, or start a new run in another output folder"
            if changed == ["num_epochs"]:
                remedy = (
                    "with lr_schedule=linear the learning rate ends at 0 there, so this run can be made neither longer "
                    f"nor shorter; {remedy}"
                )
            raise UserError(f"{path}: cannot resume, {key} has changed ({', '.join(changed)}); {remedy}")
    state.epochs.load_state_dict(saved)
    try:
        rows = [json.loads(line) for line in (output_dir / METRICS).read_text().splitlines()]
    except (OSError, ValueError) as error:
        raise UserError(
            f"{output_dir / METRICS}: not readable ({error}); start a new run in another output folder"
        ) from None
    return [row for row in rows if row["epoch"] <= state.epochs.epoch]


def _said(state: RunState, best: Summary) -> str:
    shown = {
        "exact decomposition": "exact_decomposition",
        "exact plan": "exact_plan",
        "edge F1": "edge_f1",
        "raw validity": "raw_validity",
    }
    figures = ", ".join(f"{name} {best.metrics[key]:.1%}" for name, key in shown.items())
    return (
        f"{state.best}: epoch {best.epoch} on {len(state.learned)} examples; "
        f"on {len(state.held_out)} held out: loss {best.val_loss:.3f}, {figures}"
    )
