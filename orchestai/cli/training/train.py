"""`orchestai train-phase1`, `train-phase2` and `train`: both phases of training."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from orchestai.cli.options import (
    CHECKPOINTS,
    CONFIG,
    TRAINING_FILE,
    ConfigFile,
    OutputFolder,
    Overrides,
    Resume,
    flag,
    override,
    run_async,
    say,
)
from orchestai.errors import UserError

if TYPE_CHECKING:
    from orchestai.config import Config


def train_phase1(
    config: ConfigFile = CONFIG,
    data: Annotated[Path, flag("data", "Training file.")] = TRAINING_FILE,
    output_dir: OutputFolder = CHECKPOINTS,
    epochs: Annotated[int | None, flag("epochs", "Epochs instead of phase1_supervised.num_epochs.")] = None,
    batch_size: Annotated[int | None, flag("batch_size", "Instead of phase1_supervised.batch_size.")] = None,
    checkpoint: Annotated[Path | None, flag("checkpoint", "Planner to begin with; a new one if absent.")] = None,
    resume: Resume = False,
    overrides: Overrides = None,
) -> None:
    """Phase 1: learn decomposition and worker selection from training data."""
    from orchestai.config import load_config
    from orchestai.training.supervised.run import BEST
    from orchestai.training.supervised.train import train

    section = "training.phase1_supervised"
    flags = [*override(f"{section}.num_epochs", epochs), *override(f"{section}.batch_size", batch_size)]
    loaded = load_config(config, [*(overrides or []), *flags])
    if train(loaded, data=data, output_dir=output_dir, resume=resume, start=checkpoint) is None:
        say(f"{output_dir / BEST}: asks whole tasks of whom the estimate beside {data} speaks best; it has no epochs")


def train_base(
    output_dir: Annotated[Path, flag("output_dir", "Folder for the base planner.")] = Path("runs/base"),
    data: Annotated[
        list[Path] | None, flag("data", "Training file of prepare-plans to learn from as well; repeatable.")
    ] = None,
    seed: Annotated[int, flag("seed", "Of the training.")] = 0,
    resume: Resume = False,
) -> None:
    """Train a base planner, which understands instructions and knows no pool; `planner.base` names its folder."""
    from orchestai.training.supervised.base import train_base as train

    digest = train(output_dir, data or [], seed=seed, resume=resume)
    say(f"{output_dir}: base planner {digest}; use it with planner.base={output_dir}")


def train_phase2(
    config: ConfigFile = CONFIG,
    checkpoint: Annotated[Path, flag("checkpoint", "Planner to start from.")] = CHECKPOINTS / "phase1_best.pth",
    output_dir: Annotated[
        Path | None, flag("output_dir", "Folder for checkpoints and metrics; `checkpoints` if absent.")
    ] = None,
    episodes: Annotated[int | None, flag("episodes", "Episodes instead of phase2_rl.num_episodes.")] = None,
    updates: Annotated[
        int | None, flag("updates", "Updates instead of phase2_rl.num_updates, whatever they take.", minimum=1)
    ] = None,
    evaluate_only: Annotated[
        Path | None,
        flag("evaluate_only", "Train nothing: judge this planner; with --output_dir, keep validation.json there."),
    ] = None,
    resume: Resume = False,
    overrides: Overrides = None,
) -> None:
    """Phase 2: improve the planner by the reward of executed plans. Start it with `accelerate launch` for many GPUs."""
    from orchestai.config import load_config
    from orchestai.config.aliases.train import SHORT

    if episodes is not None and updates is not None:
        raise UserError("--episodes and --updates both say how long phase 2 lasts; give one of them")
    flags = [
        *override("training.phase2_rl.num_episodes", episodes),
        *(["training.phase2_rl.num_updates=null"] if episodes is not None else []),
        *override("training.phase2_rl.num_updates", updates),
    ]
    loaded = load_config(config, [*SHORT.replace(overrides or []), *flags])
    _train_or_validate(loaded, checkpoint, evaluate_only, output_dir, resume)


def train(overrides: Overrides = None) -> None:
    """Phase 2 on BigCodeBench, from a preset for this machine.

    Overrides are dotted, or short: run_cfg, trainer_cfg, model_name_or_path, train_batch_size, max_steps, checkpoint,
    output_dir, resume, evaluate_only; docs/bigcodebench.md explains them.
    """
    from orchestai.config.aliases.train import understand

    asked = understand(overrides or [])
    _train_or_validate(asked.config, asked.checkpoint, asked.evaluate_only, asked.output_dir, asked.resume)


def _train_or_validate(
    config: Config, checkpoint: Path, evaluate_only: Path | None, output_dir: Path | None, resume: bool
) -> None:
    from orchestai.training.rl.validate import validate

    if evaluate_only is not None:
        run_async(validate(config, checkpoint=evaluate_only, output_dir=output_dir))
    else:
        run_phase2(config, checkpoint=checkpoint, output_dir=output_dir or CHECKPOINTS, resume=resume)


def run_phase2(config: Config, *, checkpoint: Path, output_dir: Path, resume: bool) -> None:
    """Train phase 2 from a checkpoint of phase 1.

    Raises:
        UserError: it could not start, or no weight changed.
        SystemExit: a signal stopped it.
    """
    from orchestai.training.rl.setup import train

    summary = run_async(train(config, checkpoint=checkpoint, output_dir=output_dir, resume=resume))
    summary.exit_if_stopped()
    summary.refuse_unchanged()
