"""`orchestai improve`, `promote` and `rollback`: planners that learn from what they served."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orchestai.cli.options import CONFIG, EXECUTION_LOGS, ConfigFile, Overrides, flag, latest_checkpoint, run_async, say
from orchestai.errors import UserError

if TYPE_CHECKING:
    from orchestai.serving.improvement.registry import Lineage, Measured

PLANNERS = Path("planners")
Planners = Annotated[Path, flag("planners", "Folder of the versions.")]


def improve(
    config: ConfigFile = CONFIG,
    planners: Planners = PLANNERS,
    logs: Annotated[Path, flag("logs", "Folder of the servers' execution log.")] = EXECUTION_LOGS,
    checkpoint: Annotated[
        str | None, flag("checkpoint", "The first version, where there is none yet; else the latest in checkpoints/.")
    ] = None,
    data: Annotated[
        Path | None, flag("data", "Training file of the first version, repeated so that nothing is forgotten.")
    ] = None,
    output_dir: Annotated[Path | None, flag("output_dir", "Folder for what training writes.")] = None,
    phase2: Annotated[
        bool,
        typer.Option("--phase2/--no-phase2", help="Also train by reward, which may ask workers that are paid."),
    ] = True,
    overrides: Overrides = None,
) -> None:
    """Train a candidate from served runs with feedback, and compare it with the planner that serves."""
    from orchestai.config import load_config
    from orchestai.serving.improvement.improve import Improvement
    from orchestai.serving.improvement.registry import PlannerRegistry
    from orchestai.serving.store import all_feedback

    loaded = load_config(config, overrides or [])
    registry = PlannerRegistry(planners)
    if registry.current is None:
        first = checkpoint or latest_checkpoint()
        if first is None:
            raise UserError(f"{planners}: no planner serves from here, and there is none to begin with: --checkpoint")
        registry.add(Path(first))
    said = all_feedback(loaded.serving.database)
    work = output_dir or Path("runs") / f"improve-{time.strftime('%Y%m%d-%H%M%S')}"
    lineage = run_async(Improvement(loaded, logs, said, registry, work, data, phase2).run())
    say(*_report(lineage))


def promote(
    version: Annotated[int, typer.Argument(help="As improve has named it.")], planners: Planners = PLANNERS
) -> None:
    """Let a version serve, which must be better than the one that serves now, beyond chance."""
    from orchestai.serving.improvement.registry import PlannerRegistry

    current = PlannerRegistry(planners).promote(version)
    say(f"version {current.version} serves; servers with --checkpoint {planners} take it over within seconds")


def rollback(planners: Planners = PLANNERS) -> None:
    """Let the version serve again that did before."""
    from orchestai.serving.improvement.registry import PlannerRegistry

    current = PlannerRegistry(planners).rollback()
    say(f"version {current.version} serves again; servers with --checkpoint {planners} take it over within seconds")


def _report(lineage: Lineage) -> list[str]:
    trial = lineage.trial
    assert trial is not None
    lines = [
        f"version {lineage.version}, from version {lineage.parent}, learned from "
        f"{lineage.learned['succeeded']} of {lineage.learned['runs']} served runs, which succeeded, and by reward on "
        f"{lineage.learned['phase2_tasks']} tasks",
        *(f"left out: {count}, {reason}" for reason, count in lineage.learned["left_out"].items()),
        f"success on {trial.difference.n} served tasks kept aside: {_shown(trial.candidate)}; version "
        f"{lineage.parent}: {_shown(trial.incumbent)}; difference {_shown(trial.difference, sign='+')}",
    ]
    if trial.sampling is not None:
        assert trial.over_sampling is not None
        lines.append(
            f"{trial.sampling_how}, for as much money: {_shown(trial.sampling)}; difference of the candidate to it "
            f"{_shown(trial.over_sampling, sign='+')}"
        )
    elif trial.sampling_how:
        lines.append(trial.sampling_how)
    if trial.is_better:
        lines.append(f"better beyond chance; let it serve with: orchestai promote {lineage.version}")
    else:
        lines.append("not better beyond chance, so it cannot be promoted; serve more runs with feedback")
    return lines


def _shown(measured: Measured, sign: str = "") -> str:
    if measured.mean is None:
        return "unknown"
    return f"{measured.mean:{sign}.3f} [{measured.low:{sign}.3f}, {measured.high:{sign}.3f}]"
