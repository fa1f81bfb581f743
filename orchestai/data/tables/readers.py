"""Readers of outcome tables: one row per query and worker, RouterBench, RouteLLM's evaluation."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from itertools import starmap
from pathlib import Path
from typing import Any, Final, TypeAlias

from orchestai.data.readers.files import files
from orchestai.data.tables.outcome_table import (
    MEASURES,
    TableOutcome,
    absent,
    measures,
    outcome_rows,
    printed_list,
)
from orchestai.errors import UserError
from orchestai.plugins import did_you_mean
from orchestai.tasks.records import is_csv

Columns: TypeAlias = Mapping[str, str]
"""Field of an outcome -> name of the column that holds it; empty where none does, though one may be called so."""

REQUIRED: Final = ("query", "worker", "score")
FIELDS: Final = (*REQUIRED, "id", "task_type", "cost_usd", "latency_s", "tokens", "reply", "card")
SHORT: Final = {"cost": "cost_usd", "latency": "latency_s"}
_NEXT_FIELD: Final = re.compile(r",(?=[^,]*=)")


def parse_columns(words: Iterable[str]) -> dict[str, str]:
    """`query=prompt,worker=model` as a mapping; `cost` and `latency` stand for `cost_usd` and `latency_s`.

    A part without `=` goes on with the name of the column before it. `FIELD=` says that no column holds the field.

    Raises:
        UserError: a part is no FIELD=COLUMN, or names no field.
    """
    columns: dict[str, str] = {}
    for part in (part for word in words for part in _NEXT_FIELD.split(word)):
        field, equals, column = (side.strip() for side in part.partition("="))
        field = SHORT.get(field, field)
        if not equals or (not column and field in REQUIRED):
            raise UserError(f"--columns: {part!r} is no FIELD=COLUMN, such as query=prompt")
        if field not in FIELDS:
            raise UserError(
                f"--columns: no field {field!r}; there are {', '.join(FIELDS)}{did_you_mean(field, FIELDS)}"
            )
        columns[field] = column
    return columns


PATTERNS: Final = {"csv": ("*.csv", "*.tsv"), "parquet": ("*.parquet",), "jsonl": ("*.jsonl",)}
"""What the readers csv, parquet and jsonl take of a folder, the first and the last with gzip or without."""


def read_long(path: Path, reader: str, columns: Columns) -> Iterator[TableOutcome]:
    """Rows of a file, or of all files of a folder that the reader takes.

    Raises:
        UserError: a file for the reader csv is named otherwise.
    """
    found = files(path, *PATTERNS[reader])
    if reader == "csv" and not is_csv(found[0]):
        raise UserError(
            f"{found[0]}: the reader csv takes files that end in .csv or .tsv, or in these and .gz; rename it, or name "
            "the --reader of what it is"
        )
    for file in found:
        rows = outcome_rows(file)
        named = column_names({name for _, row in rows for name in row}, columns, str(file))
        yield from (outcome(where, row, named) for where, row in rows)


def column_names(present: Iterable[str], columns: Columns, where: str) -> dict[str, str]:
    """Field -> column: those of the mapping, and columns that are called like a field, or shortly like one.

    Raises:
        UserError: a mapped column is absent, or one that is needed is neither mapped nor there.
    """
    present = set(present)
    for field, column in columns.items():
        if column and column not in present:
            raise UserError(f"{where}: no column {column!r} for {field}{_there_are(column, present)}")
    named = {field: short for short, field in SHORT.items() if short in present}
    named |= {field: field for field in FIELDS if field in present} | dict(columns)
    named = {field: column for field, column in named.items() if column}
    for field in REQUIRED:
        if field not in named:
            raise UserError(
                f"{where}: no column {field!r}; say which one holds it: --columns {field}=COLUMN"
                f"{_there_are(field, present)}"
            )
    return named


def outcome(where: str, row: Mapping[str, Any], named: Columns) -> TableOutcome:
    """The outcome that a row holds.

    Args:
        named: field -> column; what is not in it the outcome does not say.
    """
    cells: dict[str, Any] = {field: row.get(column) for field, column in named.items()}
    numbers = measures({name: cells.pop(name, None) for name in MEASURES})
    return TableOutcome(where=where, **cells, **numbers)


def _there_are(column: str, present: Iterable[str]) -> str:
    return f"; there are {', '.join(sorted(present))}{did_you_mean(column, present)}"


_COST, _REPLY = "|total_cost", "|model_response"


def read_routerbench(path: Path) -> Iterator[TableOutcome]:
    """Outcomes of RouterBench (Hu et al. 2024, arXiv 2403.12031), of a file or of all such files of a folder.

    Read are the published columns (`sample_id`, `prompt`, `eval_name`, and per model `MODEL`, `MODEL|total_cost`,
    `MODEL|model_response`) in CSV or Parquet, and JSON lines in which `score`, `cost_usd` and, where there are replies,
    `response` are mappings by model. Prompts and replies that are printed lists become text.
    """
    for file in files(path, "*.jsonl", "*.csv", "*.parquet"):
        yield from starmap(
            _routerbench_outcome, (cell for where, row in outcome_rows(file) for cell in _routerbench_cells(where, row))
        )


def _routerbench_cells(where: str, row: Mapping[str, Any]) -> Iterator[tuple[Any, ...]]:
    if isinstance(row.get("score"), dict):
        costs, replies = row.get("cost_usd") or {}, row.get("response") or {}
        if not (isinstance(costs, dict) and isinstance(replies, dict)):
            raise UserError(f"{where}: `cost_usd` and `response` are mappings by model where `score` is one")
        for worker, score in row["score"].items():
            yield where, row, row.get("suite"), worker, (score, costs.get(worker), replies.get(worker))
        return
    models = [column.removesuffix(_COST) for column in row if column.endswith(_COST)]
    if "prompt" not in row or not models or not set(models) <= row.keys():
        raise UserError(
            f"{where}: not a row of RouterBench, which has `prompt` and, per model, MODEL and MODEL{_COST}, or "
            "mappings `score` and `cost_usd`"
        )
    for worker in models:
        yield where, row, row.get("eval_name"), worker, (row[worker], row[worker + _COST], row.get(worker + _REPLY))


def _routerbench_outcome(
    where: str, row: Mapping[str, Any], task_type: Any, worker: str, cell: tuple[Any, Any, Any]
) -> TableOutcome:
    score, cost, reply = cell
    return TableOutcome(
        where=where,
        id=row.get("sample_id", "") if absent(row.get("id")) else row["id"],
        query=printed_list(row.get("prompt")),
        task_type=task_type,
        worker=worker,
        reply=None if absent(reply) else printed_list(reply),
        **measures({"score": score, "cost_usd": cost}),
    )


_RESPONSE = "_response"
_OTHER_COLUMNS = frozenset({"prompt", "subject", "", *FIELDS, *SHORT})


def read_routellm(path: Path) -> Iterator[TableOutcome]:
    """Outcomes of RouteLLM's evaluation (Ong et al. 2024, arXiv 2406.18665), of a file or of all of a folder.

    Read are the published `mmlu_SUBJECT.csv` and `gsm8k_responses.csv` (a `prompt`, a column of True and False per
    model, perhaps `MODEL_response` with what it wrote; the type is the subject) and JSON lines in which `score` is a
    mapping by model and `task_type` the subject.
    """
    for file in files(path, "*.csv", "*.jsonl"):
        subject = file.name.split(".")[0].removeprefix("mmlu_").removesuffix("_responses")
        cells = (cell for where, row in outcome_rows(file) for cell in _routellm_cells(where, row, subject))
        yield from starmap(_routellm_outcome, cells)


def _routellm_cells(where: str, row: Mapping[str, Any], subject: str) -> Iterator[tuple[Any, ...]]:
    scores, replies = row.get("score"), dict[str, Any]()
    if not isinstance(scores, dict):
        scores = {
            column: value
            for column, value in row.items()
            if not (column in _OTHER_COLUMNS or column.startswith(("Unnamed", "__index_level_")))
        }
        replies = {model: scores.pop(model + _RESPONSE) for model in [*scores] if model + _RESPONSE in scores}
    if "prompt" not in row or not scores:
        raise UserError(f"{where}: not a row of RouteLLM, which has `prompt` and a column or a `score` per model")
    task_type = row.get("task_type", row.get("subject", subject))
    return ((where, row, task_type, worker, score, replies.get(worker)) for worker, score in scores.items())


def _routellm_outcome(
    where: str, row: Mapping[str, Any], task_type: Any, worker: str, score: Any, reply: Any
) -> TableOutcome:
    return TableOutcome(
        where=where,
        id=row.get("id", ""),
        query=row["prompt"],
        task_type=task_type,
        worker=worker,
        reply=reply,
        **measures({"score": score}),
    )
