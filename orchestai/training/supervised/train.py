"""Phase 1: the planner learns to imitate the plans of a training file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from rich.progress import Progress

from orchestai.config import Config
from orchestai.data.training_file import TrainingExample, load_training_data
from orchestai.errors import UserError
from orchestai.planner.checkpoint import read_checkpoint, save_planner
from orchestai.planner.slots.encoder import UnreadableTextError
from orchestai.planner.slots.model import PlannerModel
from orchestai.storage.folder_lock import locked
from orchestai.training.distributed import open_accelerator
from orchestai.training.supervised import language_planner
from orchestai.training.supervised.dataset import WorkflowDataset
from orchestai.training.supervised.run import (
    BEST,
    LAST,
    RunState,
    Summary,
    check_folder,
    identity_of,
    progress_lines,
    reference_fact,
    run,
    split_examples,
)
from orchestai.training.supervised.slot_planner import Imitation
from orchestai.workers.pool import worker_cards


def train(config: Config, *, data: Path, output_dir: Path, resume: bool = False) -> Summary:
    """Train the configured kind of planner on the examples in `data`; the best epoch is kept in `output_dir`.

    Args:
        resume: go on after the last epoch that was finished in `output_dir`, as if nothing had happened in between.

    Raises:
        UserError: the data, the configuration or the state to resume cannot be used, another process trains into the
            folder, or the loss is no longer finite.
    """
    with locked(output_dir, "phase1"):
        train_kind = language_planner.train if config.planner.kind == "language" else _train
        return train_kind(config, data=data, output_dir=output_dir, resume=resume)


def _train(config: Config, *, data: Path, output_dir: Path, resume: bool) -> Summary:
    """Train a planner of heads."""
    settings = config.training.phase1_supervised
    check_folder(output_dir / LAST, resume=resume)
    examples = load_training_data(data, config)
    identity = identity_of(config, examples)
    torch.manual_seed(settings.seed)
    accelerator = open_accelerator(output_dir, config.logging, config.training.timeout_s)
    if accelerator.num_processes > 1:
        raise UserError(
            "phase 1 of planner.kind=heads takes minutes in one process, and knows no other way; start it without "
            "accelerate launch"
        )
    planner = PlannerModel(config.planner, worker_cards(config.workers), cache_dir=config.workers.models_dir)
    planner.to(accelerator.device)
    reference = reference_fact(data)

    def save(path: Path, facts: Mapping[str, Any]) -> None:
        save_planner(path, planner, config, reward_reference=reference, **facts)

    with progress_lines(accelerator) as progress:
        readable = _readable([e for e in examples if e.split != "test"], planner, data, progress)
        learned, held_out = split_examples(readable, config.tasks, data)
        imitation = Imitation(
            planner,
            WorkflowDataset.from_examples(learned, config.planner),
            WorkflowDataset.from_examples(held_out, config.planner),
            settings,
        )
        state = RunState(imitation, output_dir / BEST, output_dir / LAST, save, read_checkpoint, learned, held_out)
        return run(state, config, output_dir, identity, progress, accelerator, resume=resume)


def _readable(
    examples: Sequence[TrainingExample], planner: PlannerModel, data: Path, progress: Progress
) -> list[TrainingExample]:
    """The examples whose instructions the planner takes whole; what is read is kept for training."""
    line = progress.add_task("reading", total=len(examples), status="")
    readable, reason = [], ""
    for example in examples:
        try:
            if example.given:
                planner.read_steps(example.instruction, [span for span in example.targets.spans if span is not None])
            else:
                planner.encoder.encode(example.instruction)
            readable.append(example)
        except UnreadableTextError as error:
            reason = f"{example.task_id or example.instruction[:40]!r}: {error}"
            progress.console.print(f"{data}: left out {reason}")
        progress.advance(line)
    if examples and not readable:
        raise UserError(f"{data}: none of {len(examples)} instructions can be read; the last, {reason}")
    return readable
