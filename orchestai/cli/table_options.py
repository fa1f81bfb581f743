"""What the commands that read tables of outcomes share: their options, and how a table and its replies are read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from orchestai.cli.options import flag, say

if TYPE_CHECKING:
    from orchestai.config import Config
    from orchestai.data.tables.outcome_table import OutcomeTable
    from orchestai.evaluation.tables.replies.program_replies import ProgramReplies
    from orchestai.tasks.task import Task

Reader = Annotated[
    str,
    flag(
        "reader",
        "What it is: csv, parquet, jsonl, routerbench, routellm, llmrouter, or a reader of your own, MODULE:FUNCTION.",
    ),
]
Columns = Annotated[
    list[str] | None,
    flag(
        "columns",
        "FIELD=COLUMN,... for csv, parquet and jsonl: query=prompt,worker=model,score=correct; FIELD= leaves one out.",
    ),
]
Cards = Annotated[Path | None, flag("cards", "YAML or JSON: what each worker is, in a sentence.")]
RunReplies = Annotated[bool, flag("run_replies", "Judge replies that are programs by the tests of tasks.suite.")]


def read_table(paths: list[Path], reader: str, columns: list[str] | None, cards: Path | None) -> OutcomeTable:
    """The outcomes of all files; says what was left out."""
    from orchestai.data.tables import read_cards, read_outcome_table
    from orchestai.data.tables.long_form import parse_columns

    outcomes = read_outcome_table(paths, reader, parse_columns(columns or []))
    say(*(f"left out: {line}" for line in outcomes.left_out))
    return outcomes if cards is None else outcomes.with_cards(read_cards(cards))


def judged_replies(
    outcomes: OutcomeTable, config: Config, progress: Callable[[str], object]
) -> tuple[ProgramReplies, list[Task]]:
    """What came of running the replies to queries that are tasks of the configured suite, and these tasks, by row."""
    from orchestai.evaluation.tables.replies.program_replies import matching_tasks, run_replies
    from orchestai.execution.runtime import open_sandbox
    from orchestai.tasks.suites import open_suite

    suite = open_suite(config.tasks)
    tasks, ambiguous = matching_tasks(outcomes, [task for split in suite.splits for task in suite.split(split)])
    if ambiguous:
        say(f"left out: {ambiguous} x several tasks begin with the query")
    with open_sandbox(config.sandbox, config.execution) as sandbox:
        replies = run_replies(outcomes, tasks, sandbox, config.workers.models_dir, progress)
    return replies.named(f"{suite.name}_replies"), [tasks[row] for row in sorted(tasks)]
