"""`orchestai report`: one page that shows a run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from orchestai.cli.options import say


def report(
    paths: Annotated[list[Path], typer.Argument(metavar="PATHS...", help="Logs, evaluations or folders of runs.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="HTML file to write.")] = Path("report.html"),
) -> None:
    """Write one HTML page that shows runs: claims, training, every execution, groups, transcripts. It works offline."""
    from orchestai.report.build import build_report
    from orchestai.report.safe_text import visible

    problems = build_report(paths, output)
    say(*(visible(problem) for problem in problems), f"written: {output}")
