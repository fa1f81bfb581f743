"""Phase 1: the planner learns to imitate the plans of a training file."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path

import torch

from orchestai.config import Config
from orchestai.data.training_file import TrainingExample, load_training_data, logged_reference
from orchestai.errors import UserError
from orchestai.planner.checkpoint import read_estimate, save_router
from orchestai.planner.files import STATE_KEY, estimate_path
from orchestai.storage import artifacts
from orchestai.storage.folder_lock import locked
from orchestai.tasks.splits import SeenTasks
from orchestai.training.distributed import open_accelerator
from orchestai.training.supervised import language_planner, slot_planner
from orchestai.training.supervised.run import BEST, LAST, Setup, Summary, check_folder, identity_of, progress_lines, run


def take_over(config: Config, data: Path, examples: list[TrainingExample], output_dir: Path) -> None:
    """Write the checkpoint of the estimate that `prepare` learned beside the training file."""
    state = read_estimate(estimate_path(data))
    if state is None:
        raise UserError(
            f"{estimate_path(data)}: no estimate of the workers, which planner.kind=whole chooses by; prepare learns "
            "one from a table, or from twenty judged executions on"
        )
    reference = logged_reference(data)
    seen = SeenTasks.of(*([e.asked for e in examples if e.split == part] for part in ("train", "validation")))
    identity = identity_of(config, data)
    facts = {
        STATE_KEY: state,
        "identity": identity,
        "reward_reference": None if reference is None else asdict(reference),
        **seen.facts(),
    }
    for name in (BEST, LAST):
        save_router(output_dir / name, config, **facts)
    artifacts.save_run_info(output_dir, config, command="phase1", **identity)


def train(
    config: Config, *, data: Path, output_dir: Path, resume: bool = False, start: Path | None = None
) -> Summary | None:
    """Train the configured kind of planner on the examples in `data`; the best epoch is kept in `output_dir`.

    None where it has no epochs, since it takes over what was learned of its workers.

    Args:
        resume: go on after the last epoch that was finished in `output_dir`, as if nothing had happened in between.
        start: a planner whose weights it begins with; None begins anew.
    """
    writes_text = config.planner.kind == "language"
    with locked(output_dir, "phase1"):
        check_folder(config, output_dir, resume=resume)
        examples = load_training_data(data, config)
        if config.planner.kind == "whole":
            take_over(config, data, examples, output_dir)
            return None
        torch.manual_seed(config.training.phase1_supervised.seed)
        precision = config.planner.language.mixed_precision if writes_text else None
        accelerator = open_accelerator(output_dir, config.logging, config.training.timeout_s, precision)
        with progress_lines(accelerator) as progress:
            setup = Setup(config, data, examples, output_dir, resume, accelerator, progress, start)
            return run(setup, (language_planner if writes_text else slot_planner).begin(setup))
