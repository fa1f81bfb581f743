"""What commands share: options, the overrides that options stand for, and what they print."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TextIO, TypeVar

import typer

from orchestai.report.safe_text import visible_lines

if TYPE_CHECKING:
    from orchestai.config import Config
    from orchestai.data.outcome_table import OutcomeTable
    from orchestai.evaluation.tables.replies import ProgramReplies
    from orchestai.tasks.task import Task


T = TypeVar("T")


def flag(name: str, text: str, minimum: int | None = None) -> Any:
    """An option spelled with underscores, as in `--output_dir`, and also with hyphens."""
    return typer.Option(*dict.fromkeys((f"--{name}", f"--{name.replace('_', '-')}")), help=text, min=minimum)


def override(key: str, value: object) -> list[str]:
    """The override that an option stands for; none if it was not given."""
    return [] if value is None else [f"{key}={json.dumps(value)}"]


def load(config: Path, words: list[str] | None = None, *, first_pool: bool = False) -> Config:
    """The configuration; where there is none here, that of the composition suite, or the pool of the first minute."""
    from orchestai.config import FIRST_POOL, load_config

    return load_config(config, words or [], default=FIRST_POOL if first_pool else None)


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


Reader = Annotated[
    str,
    flag(
        "reader",
        "What it is: csv, parquet, jsonl, routerbench, routellm, or a reader of your own, MODULE:FUNCTION.",
    ),
]
Columns = Annotated[
    list[str] | None,
    flag(
        "columns",
        "FIELD=COLUMN,... for csv, parquet and jsonl: query=prompt,worker=model,score=correct; FIELD= leaves one out.",
    ),
]
RunReplies = Annotated[bool, flag("run_replies", "Judge replies that are programs by the tests of tasks.suite.")]


def read_table(paths: list[Path], reader: str, columns: list[str] | None) -> OutcomeTable:
    """The outcomes of all files; says what was left out."""
    from orchestai.data.table_readers import parse_columns, read_outcome_table

    outcomes = read_outcome_table(paths, reader, parse_columns(columns or []))
    say(*(f"left out: {line}" for line in outcomes.left_out))
    return outcomes


def judged_replies(
    outcomes: OutcomeTable, config: Config, progress: Callable[[str], object]
) -> tuple[ProgramReplies, list[Task]]:
    """What came of running the replies to queries that are tasks of the configured suite, and these tasks, by row."""
    from orchestai.evaluation.tables.replies import matching_tasks, run_replies
    from orchestai.execution.runtime import open_sandbox
    from orchestai.tasks.suites import open_suite

    suite = open_suite(config.tasks)
    tasks, ambiguous = matching_tasks(outcomes, [task for split in suite.splits for task in suite.split(split)])
    if ambiguous:
        say(f"left out: {ambiguous} x several tasks begin with the query")
    with open_sandbox(config.sandbox, config.execution) as sandbox:
        named = replace(outcomes, source=f"{suite.name}_replies")
        replies = run_replies(named, tasks, sandbox, config.workers.models_dir, progress)
    return replies, [tasks[row] for row in sorted(tasks)]
