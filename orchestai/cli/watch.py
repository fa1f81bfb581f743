"""`orchestai watch`: the report page of a run that is going on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from orchestai.cli.options import CONFIG, ConfigFile, flag, say
from orchestai.cli.report import served_feedback


def watch(
    paths: Annotated[list[Path], typer.Argument(metavar="DIR...", help="Folders of runs, or logs.")],
    port: Annotated[int, flag("port", "0 takes a free one.", minimum=0)] = 8765,
    config: ConfigFile = CONFIG,
) -> None:
    """Show a run while it goes on, in a page on this machine, until Ctrl-C. The run is only read."""
    from orchestai.report.watch import watch as watch_until_interrupted

    watch_until_interrupted(
        paths,
        port,
        lambda address: say(f"watching at {address} (Ctrl-C ends it)"),
        feedback=lambda: served_feedback(config),
    )
