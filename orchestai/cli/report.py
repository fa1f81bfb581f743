"""`orchestai report`, one page that shows a run, and `orchestai watch`, the same while it runs."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from orchestai.cli.options import CONFIG, ConfigFile, flag, say


def report(
    paths: Annotated[list[Path], typer.Argument(metavar="PATHS...", help="Logs, evaluations or folders of runs.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="HTML file to write.")] = Path("report.html"),
    config: ConfigFile = CONFIG,
) -> None:
    """Write one HTML page that shows runs: claims, training, every execution, groups, transcripts. It works offline."""
    from orchestai.report.build import build_report
    from orchestai.report.safe_text import visible

    problems = build_report(paths, output, feedback=lambda: served_feedback(config))
    say(*(visible(problem) for problem in problems), f"written: {output}")


def served_feedback(config: Path) -> dict[str, dict[str, Any]]:
    """What is said of served runs in the database that a configuration names.

    Raises:
        UserError: the configuration or the database cannot be read.
    """
    from orchestai.config import load_config
    from orchestai.serving.store import all_feedback

    database = load_config(config).serving.database
    return {run_id: asdict(said) for run_id, said in all_feedback(database).items()}


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
