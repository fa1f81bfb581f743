"""Readers of outcome tables: rows of any columns, RouterBench, RouteLLM's evaluation. Your own: docs/data/tables.md."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, Final, TypeAlias

from orchestai.data.outcome_table import (
    MEASURES,
    OutcomeTable,
    TableOutcome,
    UnusableOutcomeError,
    absent,
    measures,
    outcome_rows,
    printed_list,
    table_of,
)
from orchestai.data.readers import files, named_reader
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
    """Rows of a file, or of all files of a folder that the reader takes."""
    found = files(path, *PATTERNS[reader])
    if reader == "csv" and not is_csv(found[0]):
        raise UserError(
            f"{found[0]}: the reader csv takes files that end in .csv or .tsv, or in these and .gz; rename it, or name "
            "the --reader of what it is"
        )
    for file in found:
        rows = outcome_rows(file)
        named = column_names({name for _, row in rows for name in row}, columns, str(file))
        for where, row in rows:
            cells: dict[str, Any] = {field: row.get(column) for field, column in named.items()}
            numbers = measures({name: cells.pop(name, None) for name in MEASURES})
            yield TableOutcome(where=where, **cells, **numbers)


def column_names(present: Iterable[str], columns: Columns, where: str) -> dict[str, str]:
    """Field -> column: those of the mapping, and columns that are called like a field, or shortly like one."""
    present = set(present)

    def there_are(column: str) -> str:
        return f"; there are {', '.join(sorted(present))}{did_you_mean(column, present)}"

    for field, column in columns.items():
        if column and column not in present:
            raise UserError(f"{where}: no column {column!r} for {field}{there_are(column)}")
    named = {field: short for short, field in SHORT.items() if short in present}
    named |= {field: field for field in FIELDS if field in present} | dict(columns)
    named = {field: column for field, column in named.items() if column}
    for field in REQUIRED:
        if field not in named:
            raise UserError(
                f"{where}: no column {field!r}; say which one holds it: --columns {field}=COLUMN{there_are(field)}"
            )
    return named


_COST, _REPLY = "|total_cost", "|model_response"


def read_routerbench(path: Path) -> Iterator[TableOutcome]:
    """Outcomes of RouterBench (Hu et al. 2024, arXiv 2403.12031), of a file or of all such files of a folder.

    Read are the published columns (`sample_id`, `prompt`, `eval_name`, and per model `MODEL`, `MODEL|total_cost`,
    `MODEL|model_response`) in CSV or Parquet, and JSON lines in which `score`, `cost_usd` and, where there are replies,
    `response` are mappings by model. Prompts and replies that are printed lists become text.
    """
    for file in files(path, "*.jsonl", "*.csv", "*.parquet"):
        for where, row in outcome_rows(file):
            scores, costs, replies = (row.get(name) for name in ("score", "cost_usd", "response"))
            task_type = row.get("suite")
            if isinstance(scores, dict):
                if not all(isinstance(other or {}, dict) for other in (costs, replies)):
                    raise UserError(f"{where}: `cost_usd` and `response` are mappings by model where `score` is one")
            else:
                models = [column.removesuffix(_COST) for column in row if column.endswith(_COST)]
                if "prompt" not in row or not models or not set(models) <= row.keys():
                    raise UserError(
                        f"{where}: not a row of RouterBench, which has `prompt` and, per model, MODEL and MODEL{_COST}"
                        ", or mappings `score` and `cost_usd`"
                    )
                scores, costs, replies = ({one: row.get(one + end) for one in models} for end in ("", _COST, _REPLY))
                task_type = row.get("eval_name")
            for worker, score in scores.items():
                reply = (replies or {}).get(worker)
                yield TableOutcome(
                    where=where,
                    id=row.get("sample_id", "") if absent(row.get("id")) else row["id"],
                    query=printed_list(row.get("prompt")),
                    task_type=task_type,  # type: ignore[arg-type]
                    worker=worker,
                    reply=None if absent(reply) else printed_list(reply),
                    **measures({"score": score, "cost_usd": (costs or {}).get(worker)}),
                )


_RESPONSE = "_response"
_OTHER_COLUMNS = frozenset({"prompt", "subject", "question_id", "category", "turn", "turns", "", *FIELDS, *SHORT})


def read_routellm(path: Path) -> Iterator[TableOutcome]:
    """Outcomes of RouteLLM's evaluation (Ong et al. 2024, arXiv 2406.18665), of a file or of all of a folder.

    Read are the published `mmlu_SUBJECT.csv` and `gsm8k_responses.csv` (a `prompt`, a column of True and False per
    model, perhaps `MODEL_response` with what it wrote; the type is the subject) and JSON lines in which `score` is a
    mapping by model and `task_type` the subject.
    """
    for file in files(path, "*.csv", "*.jsonl"):
        subject = file.name.split(".")[0].removeprefix("mmlu_").removesuffix("_responses")
        for where, row in outcome_rows(file):
            scores, replies = row.get("score"), dict[str, Any]()
            if not isinstance(scores, dict):
                apart = ("Unnamed", "__index_level_")
                scores = {c: v for c, v in row.items() if c not in _OTHER_COLUMNS and not c.startswith(apart)}
                replies = {model: scores.pop(model + _RESPONSE) for model in [*scores] if model + _RESPONSE in scores}
            if "prompt" not in row or not scores:
                raise UserError(f"{where}: no row of RouteLLM, which has `prompt` and a column or a `score` per model")
            kind: Any = row.get("task_type", row.get("subject", subject))
            about = {"where": where, "id": row.get("id", row.get("question_id", "")), "query": row["prompt"]}
            for one, score in scores.items():
                numbers = measures({"score": score})
                yield TableOutcome(**about, task_type=kind, worker=one, reply=replies.get(one), **numbers)


TableReader: TypeAlias = Callable[[Path], Iterable[TableOutcome | UnusableOutcomeError]]
"""Gives the outcomes of a file or folder in an order that is always the same.

What cannot be used is given as its reason, not raised, so that the others are kept and the reason is counted.
"""

_OWN_FORM: dict[str, TableReader] = {"routerbench": read_routerbench, "routellm": read_routellm}


def read_outcome_table(paths: Sequence[Path], reader: str, columns: Columns | None = None) -> OutcomeTable:
    """The outcomes of all files together as one table, named after the reader, or after the first file.

    Args:
        reader: as `find_table_reader`.
        columns: field -> column, for csv, parquet and jsonl.
    """
    read = find_table_reader(reader, columns or {})
    source = reader if reader in _OWN_FORM else paths[0].resolve().name.split(".")[0]
    return table_of(source, chain.from_iterable(map(read, paths)), by_columns=reader in PATTERNS)


def find_table_reader(name: str, columns: Columns) -> TableReader:
    """A reader of tables by its name, as `orchestai.data.readers.named_reader`."""
    if columns and name not in PATTERNS:
        raise UserError(f"--columns: the reader {name!r} knows its columns; only {', '.join(PATTERNS)} take a mapping")
    long = {kind: partial(read_long, reader=kind, columns=columns) for kind in PATTERNS}
    reader: TableReader = named_reader("table_readers", long | _OWN_FORM, "--reader", name)
    return reader
