"""What commands share: options, the overrides that options stand for, and what they print."""

from __future__ import annotations

import json
import sys
from collections.abc import Coroutine
from pathlib import Path
from typing import Annotated, Any, TextIO, TypeVar

import typer

from orchestai.report.safe_text import visible_lines

T = TypeVar("T")


def flag(name: str, text: str, minimum: int | None = None) -> Any:
    """An option spelled with underscores, as in `--output_dir`, and also with hyphens."""
    return typer.Option(*dict.fromkeys((f"--{name}", f"--{name.replace('_', '-')}")), help=text, min=minimum)


def override(key: str, value: object) -> list[str]:
    """The override that an option stands for; none if it was not given."""
    return [] if value is None else [f"{key}={json.dumps(value)}"]


def run_async(work: Coroutine[Any, Any, T]) -> T:
    """What a coroutine returns; the loop is imported here, so that `--help` does not wait for it."""
    import asyncio

    return asyncio.run(work)


def say(*lines: str) -> None:
    """Print lines to stderr, with what would act on a terminal as its codes."""
    for line in lines:
        print(visible_lines(line), file=sys.stderr, flush=True)


def print_words(text: str, output: TextIO) -> None:
    """Print what models wrote: as it is into a file or a pipe, on a terminal with its controls as their codes."""
    print(visible_lines(text) if output.isatty() else text, file=output, flush=True)


ConfigFile = Annotated[Path, typer.Option("--config", help="Configuration file.")]
Overrides = Annotated[list[str] | None, typer.Argument(metavar="[KEY=VALUE]...", help="Dotted overrides.")]
OutputFolder = Annotated[Path, flag("output_dir", "Folder for checkpoints and metrics.")]
Resume = Annotated[bool, typer.Option("--resume", help="Go on from the last checkpoint in the output folder.")]
Record = Annotated[Path | None, flag("record", "Also write every generation used to this recording.")]
JsonFile = Annotated[Path | None, typer.Option("--json", help="Also write the figures to this JSON file.")]

CONFIG = Path("config.yaml")
CHECKPOINTS = Path("checkpoints")
EXECUTION_LOGS = Path("execution_logs")
TRAINING_FILE = Path("training_data.json")
"""What commands read and write unless told otherwise, in the working directory."""


def latest_checkpoint() -> str | None:
    """The best planner of the last phase in `checkpoints/`; None without any."""
    for name in ("phase2_best.pth", "phase2_best", "phase1_best.pth", "phase1_best"):
        if (CHECKPOINTS / name).exists():
            return str(CHECKPOINTS / name)
    return None
