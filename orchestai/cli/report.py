"""`orchestai report`: one page that shows a run."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import typer

from orchestai.cli.options import CONFIG, ConfigFile, say


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
