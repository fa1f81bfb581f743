"""Phase 1: the planner learns to imitate the plans of a training file."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any

import torch
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from orchestai import artefacts
from orchestai.config import Config
from orchestai.errors import UserError
from orchestai.planner.checkpoint import read_checkpoint, save_planner
from orchestai.planner.encoder import TextEncoder, UnreadableTextError
from orchestai.planner.model import PlannerModel
from orchestai.training.data_format import TrainingExample, load_training_data
from orchestai.training.dataset import WorkflowDataset
from orchestai.training.imitation import Imitation
from orchestai.training.rl.distributed import open_accelerator
from orchestai.workers.pool import worker_cards

BEST, LAST, METRICS = "phase1_best.pth", "phase1_last.pth", "phase1_metrics.jsonl"


@dataclass(frozen=True)
class Summary:
    """The best epoch, counted from 1, and its figures."""

    epoch: int
    val_loss: float
    metrics: Mapping[str, float]


def train(config: Config, *, data: Path, output_dir: Path, resume: bool = False) -> Summary:
    """Train on the examples in `data`; keep the epoch with the least validation loss in `output_dir`.

    Args:
        resume: go on after the last epoch that was finished in `output_dir`, as if nothing had happened in between.

    Raises:
        UserError: the data, the configuration or the state to resume cannot be used, or the loss is no longer finite.
    """
    settings = config.training.phase1_supervised
    console = Console(stderr=True)
    examples = load_training_data(data, config)
    torch.manual_seed(settings.seed)
    accelerator = open_accelerator(output_dir, config.logging)
    planner = PlannerModel(config.planner, worker_cards(config.workers)).to(accelerator.device)
    with _progress(console) as progress:
        examples = _readable(examples, planner.encoder, data, progress)
        learned, held_out = split_examples(examples, settings.val_fraction, settings.seed, data)
        imitation = Imitation(
            planner,
            WorkflowDataset.from_examples(learned, config.planner),
            WorkflowDataset.from_examples(held_out, config.planner),
            settings,
        )
        identity = _identity(config, examples)
        history: list[dict[str, float]] = []
        if resume:
            history = _resume(output_dir, imitation, identity)
        artefacts.save_run_info(output_dir, config, command="phase1", seed=settings.seed, **identity)
        line = progress.add_task("phase 1", total=settings.num_epochs, completed=imitation.epoch, figures="")
        while not imitation.finished:
            figures = imitation.run_epoch()
            history.append({"epoch": imitation.epoch, **figures})
            artefacts.write_text(output_dir / METRICS, "".join(json.dumps(row) + "\n" for row in history))
            facts = imitation.state_dict() | {"seed": settings.seed, "identity": identity}
            if imitation.stale_epochs == 0:
                save_planner(output_dir / BEST, planner, config, **facts)
            save_planner(output_dir / LAST, planner, config, **facts)
            accelerator.log(figures, step=imitation.epoch)
            shown = (
                f"loss {figures['train_loss']:.3f}  val {figures['val_loss']:.3f}  exact {figures['exact_plan']:.0%}"
            )
            progress.update(line, completed=imitation.epoch, figures=shown)
    accelerator.end_training()
    best = min(history, key=lambda row: row["val_loss"])
    summary = Summary(int(best["epoch"]), best["val_loss"], best)
    console.print(_said(output_dir, summary, len(learned), len(held_out)), highlight=False)
    return summary


def split_examples(
    examples: Sequence[TrainingExample], fraction: float, seed: int, data: Path
) -> tuple[list[TrainingExample], list[TrainingExample]]:
    """Examples to learn from, and examples held out: those marked so, or, where none is, a share of the tasks.

    Raises:
        UserError: nothing would be left for one of them.
    """
    held_out = [example for example in examples if example.split == "validation"]
    learned = [example for example in examples if example.split == "train"]
    if not held_out:
        tasks = sorted({example.task_id or example.instruction for example in examples})
        kept = set(Random(seed).sample(tasks, round(len(tasks) * (1 - fraction))))
        learned = [example for example in examples if (example.task_id or example.instruction) in kept]
        held_out = [example for example in examples if (example.task_id or example.instruction) not in kept]
    if not learned or not held_out:
        raise UserError(
            f"{data}: {len(learned)} examples to learn from and {len(held_out)} to validate on; both are needed, so "
            "collect executions of more tasks"
        )
    return learned, held_out


def _readable(
    examples: Sequence[TrainingExample], encoder: TextEncoder, data: Path, progress: Progress
) -> list[TrainingExample]:
    """The examples whose instructions the encoder takes whole; reading them fills its cache."""
    line = progress.add_task("reading", total=len(examples), figures="")
    readable = []
    for example in examples:
        try:
            encoder.encode(example.instruction)
            readable.append(example)
        except UnreadableTextError as error:
            progress.console.print(f"{data}: left out {example.task_id or example.instruction[:40]!r}: {error}")
        progress.advance(line)
    if not readable:
        raise UserError(f"{data}: no instruction is short enough; raise planner.max_tokens or choose another encoder")
    return readable


def _identity(config: Config, examples: Sequence[TrainingExample]) -> dict[str, Any]:
    """What decides the course of a run, apart from how long it may go on."""
    settings = config.training.phase1_supervised
    length = {"num_epochs"} if settings.lr_schedule == "plateau" else set()
    return {
        "planner": config.planner.model_dump(mode="json"),
        "pool": [card.name for card in worker_cards(config.workers)],
        "phase1_supervised": settings.model_dump(mode="json", exclude=length),
        "data_fingerprint": artefacts.fingerprint([example.model_dump(mode="json") for example in examples]),
    }


def _resume(output_dir: Path, imitation: Imitation, identity: Mapping[str, Any]) -> list[dict[str, float]]:
    """Put the last state into `imitation`; gives the metrics of the epochs that are done."""
    path = output_dir / LAST
    if not path.exists():
        raise UserError(f"{path}: no run to resume here; start one without --resume")
    state = read_checkpoint(path)
    for key, now in identity.items():
        before = state.get("identity", {}).get(key)
        if before != now:
            changed = (
                ", ".join(k for k in now if before.get(k) != now[k])
                if isinstance(now, dict) and isinstance(before, dict)
                else f"{before!r} is now {now!r}"
            )
            raise UserError(
                f"{path}: cannot resume, {key} has changed ({changed}); restore it, or start without --resume"
            )
    imitation.load_state_dict(state)
    try:
        rows = [json.loads(line) for line in (output_dir / METRICS).read_text().splitlines()]
    except (OSError, ValueError) as error:
        raise UserError(f"{output_dir / METRICS}: not readable ({error}); start without --resume") from None
    return [row for row in rows if row["epoch"] <= imitation.epoch]


def _progress(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}"),
        BarColumn(bar_width=12),
        MofNCompleteColumn(),
        TextColumn("{task.fields[figures]}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=console,
    )


def _said(output_dir: Path, best: Summary, learned: int, held_out: int) -> str:
    shown = {
        "exact decomposition": "exact_decomposition",
        "exact plan": "exact_plan",
        "edge F1": "edge_f1",
        "raw validity": "raw_validity",
    }
    figures = ", ".join(f"{name} {best.metrics[key]:.1%}" for name, key in shown.items())
    return (
        f"{output_dir / BEST}: epoch {best.epoch} on {learned} examples; "
        f"on {held_out} held out: loss {best.val_loss:.3f}, {figures}"
    )
