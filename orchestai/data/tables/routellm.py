"""RouteLLM's evaluation (Ong et al. 2024, arXiv 2406.18665): whether a strong and a weak model answered rightly."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import starmap
from pathlib import Path
from typing import Any

from orchestai.data.readers.files import files
from orchestai.data.tables.long_form import FIELDS, SHORT
from orchestai.data.tables.outcome_table import TableOutcome, measures, outcome_rows
from orchestai.errors import UserError

_REPLY = "_response"
_OTHER_COLUMNS = frozenset({"prompt", "subject", "", *FIELDS, *SHORT})


def read(path: Path) -> Iterator[TableOutcome]:
    """Rows of a file, or of all such files of a folder.

    Read are the published `mmlu_SUBJECT.csv` and `gsm8k_responses.csv` (a `prompt`, a column of True and False per
    model, perhaps `MODEL_response` with what it wrote; the type is the subject) and JSON lines in which `score` is a
    mapping by model and `task_type` the subject.
    """
    for file in files(path, "*.csv", "*.jsonl"):
        subject = file.name.split(".")[0].removeprefix("mmlu_").removesuffix("_responses")
        cells = (cell for where, row in outcome_rows(file) for cell in _cells(where, row, subject))
        yield from starmap(_outcome, cells)


def _cells(where: str, row: Mapping[str, Any], subject: str) -> Iterator[tuple[Any, ...]]:
    scores, replies = row.get("score"), dict[str, Any]()
    if not isinstance(scores, dict):
        scores = {
            column: value
            for column, value in row.items()
            if not (column in _OTHER_COLUMNS or column.startswith(("Unnamed", "__index_level_")))
        }
        replies = {column: scores.pop(f"{column}{_REPLY}") for column in [*scores] if f"{column}{_REPLY}" in scores}
    if "prompt" not in row or not scores:
        raise UserError(f"{where}: not a row of RouteLLM, which has `prompt` and a column or a `score` per model")
    task_type = row.get("task_type", row.get("subject", subject))
    return ((where, row, task_type, worker, score, replies.get(worker)) for worker, score in scores.items())


def _outcome(where: str, row: Mapping[str, Any], task_type: Any, worker: str, score: Any, reply: Any) -> TableOutcome:
    return TableOutcome(
        where=where,
        id=row.get("id", ""),
        query=row["prompt"],
        task_type=task_type,
        worker=worker,
        reply=reply,
        **measures({"score": score}),
    )
