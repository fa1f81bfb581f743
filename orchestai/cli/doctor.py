"""`orchestai doctor`: what works here, and how to mend the rest."""

from __future__ import annotations

from typing import Annotated

import typer

from orchestai.cli.options import CONFIG, ConfigFile, Overrides, flag, latest_checkpoint, run_async


def doctor(
    config: ConfigFile = CONFIG,
    checkpoint: Annotated[str | None, flag("checkpoint", "Planner; else the latest in checkpoints/, if any.")] = None,
    overrides: Overrides = None,
) -> None:
    """Say what works here: Python, torch, sandbox, models and keys, disk, checkpoint; each with its mend."""
    from orchestai.config import FIRST_POOL, load_config
    from orchestai.doctor import examine

    planner = checkpoint or latest_checkpoint()
    loaded = load_config(config, overrides or [], default=None if planner else FIRST_POOL)
    findings = run_async(examine(loaded, planner))
    for finding in findings:
        print(finding)
    if any(finding.needed and not finding.there for finding in findings):
        raise typer.Exit(1)
