"""The rows of files of outcomes."""

from __future__ import annotations

from pathlib import Path

from orchestai.tasks.records import Record
from orchestai.tasks.table_files import is_csv, read_table


def outcome_rows(file: Path) -> list[tuple[str, Record]]:
    """The rows with where each stands; an empty cell of CSV, which does not tell an empty text from none, is None.

    Raises:
        UserError: it cannot be read, or has no rows.
    """
    rows = read_table(file, "outcome")
    if not is_csv(file):
        return rows
    return [(where, {name: value or None for name, value in row.items()}) for where, row in rows]
