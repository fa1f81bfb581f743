"""Outcome tables: what each worker scored on each query, and their readers. One of your own: docs/data/tables.md."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TypeAlias

from orchestai.data.readers import named_reader
from orchestai.data.tables.outcome_table import OutcomeTable, TableOutcome, UnusableOutcomeError, table_of
from orchestai.data.tables.readers import (
    PATTERNS,
    Columns,
    read_long,
    read_routellm,
    read_routerbench,
)
from orchestai.errors import UserError

TableReader: TypeAlias = Callable[[Path], Iterable[TableOutcome | UnusableOutcomeError]]
"""Gives the outcomes of a file or folder in an order that is always the same.

What cannot be used is given as its reason, not raised, so that the others are kept and the reason is counted.
"""

_OWN_FORM: dict[str, TableReader] = {
    "routerbench": read_routerbench,
    "routellm": read_routellm,
}


def read_outcome_table(paths: Sequence[Path], reader: str, columns: Columns | None = None) -> OutcomeTable:
    """The outcomes of all files together as one table, named after the reader, or after the first file.

    Args:
        reader: as `find_table_reader`.
        columns: field -> column, for csv, parquet and jsonl.

    Raises:
        UserError: there is no such reader, a file cannot be read, or its outcomes make no table.
    """
    read = find_table_reader(reader, columns or {})
    source = reader if reader in _OWN_FORM else paths[0].resolve().name.split(".")[0]
    return table_of(source, chain.from_iterable(map(read, paths)), by_columns=reader in PATTERNS)


def find_table_reader(name: str, columns: Columns) -> TableReader:
    """A reader of tables by its name, as `orchestai.data.readers.named_reader`.

    Raises:
        UserError: there is no such reader, or it takes no columns.
    """
    if columns and name not in PATTERNS:
        raise UserError(f"--columns: the reader {name!r} knows its columns; only {', '.join(PATTERNS)} take a mapping")
    long = {kind: partial(read_long, reader=kind, columns=columns) for kind in PATTERNS}
    reader: TableReader = named_reader("table_readers", long | _OWN_FORM, "--reader", name)
    return reader
