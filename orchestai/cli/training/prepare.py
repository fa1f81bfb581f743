"""`orchestai prepare`, `prepare-plans` and `prepare-table`: training data from logs, plans of others, or outcomes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from orchestai.cli.options import (
    CONFIG,
    EXECUTION_LOGS,
    TRAINING_FILE,
    ConfigFile,
    Overrides,
    flag,
    override,
    say,
)
from orchestai.cli.table_options import Cards, Columns, Reader, RunReplies, judged_replies, read_table
from orchestai.errors import UserError
from orchestai.progress import console

if TYPE_CHECKING:
    from orchestai.config import Config

_OVERRIDE = re.compile(r"[a-z_0-9]+(?:\.[\w-]+)+=")
_AUGMENTATIONS = "training.phase1_supervised.synthetic_augmentations"

TrainingFile = Annotated[Path, flag("output", "Training file to write.")]


def prepare(
    config: ConfigFile = CONFIG,
    logs: Annotated[Path, flag("logs", "Folder or file of execution logs.")] = EXECUTION_LOGS,
    output: TrainingFile = TRAINING_FILE,
    augment: Annotated[
        int | None, flag("augment", "Augmented examples to add; phase1_supervised.synthetic_augmentations if absent.")
    ] = None,
    overrides: Overrides = None,
) -> None:
    """Turn execution logs into training data: the best execution of every task, and reworded copies."""
    from orchestai.config import load_config

    words = [*(overrides or []), *override(_AUGMENTATIONS, augment)]
    run_prepare(load_config(config, words), logs=logs, output=output)


def run_prepare(config: Config, *, logs: Path, output: Path) -> None:
    """Write training data from logs, and say what became of them."""
    from orchestai.data.prepare import prepare as run_preparation
    from orchestai.storage import artifacts

    report = run_preparation(logs, config, output)
    console.print(report.table())
    say(*report.problems)
    artifacts.save_run_info(output.parent, config, command="prepare", logs=str(logs))


def prepare_plans(
    source: Annotated[
        str,
        typer.Option(
            "--from",
            help="What the files are: worfbench, worfbench-tools, asynchow, asynchow-stated, break, break-worded, "
            "orchestai, langgraph-json, instructions, or a reader of your own, MODULE:FUNCTION.",
        ),
    ],
    words: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="PATH... [KEY=VALUE]...", help="Files to read, which instructions has; dotted overrides."
        ),
    ] = None,
    config: ConfigFile = CONFIG,
    output: TrainingFile = TRAINING_FILE,
    free: Annotated[bool, flag("free", "Leave the steps out of the instruction, so that planners find them.")] = False,
) -> None:
    """Turn plans that others wrote into training data."""
    from orchestai.config import load_config
    from orchestai.data.prepare_plans import prepare_plans as run_preparation
    from orchestai.data.readers import find_reader
    from orchestai.shipped import here_or_shipped
    from orchestai.storage import artifacts
    from orchestai.tasks.instructions import suite as instructions

    named = [word for word in words or [] if not _OVERRIDE.match(word)]
    paths = [here_or_shipped(word) for word in named]
    loaded = load_config(config, [word for word in words or [] if _OVERRIDE.match(word)])
    if not paths and source == instructions.NAME:
        paths = [instructions.folder()]
    if not paths:
        raise UserError(f"prepare-plans --from {source}: name the files or folders to read")
    report = run_preparation(find_reader(source), paths, loaded, output, given=not free)
    console.print(report.table())
    facts = {"source": source, "paths": [str(path) for path in paths], "given": not free}
    artifacts.save_run_info(output.parent, loaded, command="prepare-plans", **facts)


def prepare_table(
    table: Annotated[list[Path], flag("from_table", "File or folder of outcomes; may be given several times.")],
    reader: Reader,
    columns: Columns = None,
    cards: Cards = None,
    run_replies: RunReplies = False,
    config: ConfigFile = CONFIG,
    output: TrainingFile = TRAINING_FILE,
    overrides: Overrides = None,
) -> None:
    """Turn a table of outcomes into training data and, with its replies, into a pool that runs without a key."""
    from orchestai.config import load_config
    from orchestai.data.prepare_table import prepare_table as run_preparation
    from orchestai.data.prepare_table import refuse_overwriting
    from orchestai.estimate.pool_estimate import FEWEST
    from orchestai.storage import artifacts

    refuse_overwriting(output, [*table, config, *([] if cards is None else [cards])])
    loaded = load_config(config, overrides or [])
    outcomes, tasks, visible = read_table(table, reader, columns, cards), None, None
    with console.status("running replies" if run_replies else "learning from the outcomes") as status:
        if run_replies:
            judged, tasks = judged_replies(outcomes, loaded, status.update)
            outcomes, visible = judged.table.worded([task.instruction for task in tasks]), judged.visible
        report = run_preparation(outcomes, loaded, output, tasks, visible)
    console.print(report.table())
    if report.config is not None:
        replays = "" if report.replies else ", which plan and answer nothing, since the table has no replies"
        say(f"written: {report.config}, with a pool of recorded workers{replays}")
    if not report.outcomes:
        say(f"too few outcomes to learn whom to ask from: {FEWEST} of queries that are not for tests are needed")
    elif report.config is not None:
        say(f"next: orchestai train-phase1 --config {report.config} --data {output}")
    facts = {"paths": [str(path) for path in table], "reader": reader}
    artifacts.save_run_info(output.parent, loaded, command="prepare-table", **facts)
