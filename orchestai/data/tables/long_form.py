"""Tables with one row per query and worker, whose columns a mapping names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, TypeAlias

from orchestai.data.readers.files import files
from orchestai.data.tables.outcome_table import MEASURES, TableOutcome, measures, outcome_rows
from orchestai.errors import UserError
from orchestai.names import did_you_mean
from orchestai.tasks.table_files import is_csv

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


def read(path: Path, reader: str, columns: Columns) -> Iterator[TableOutcome]:
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
