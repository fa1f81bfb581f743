"""Outcome tables: what each worker scored on each query, and their readers. One of your own: docs/data/tables.md."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TypeAlias

from orchestai.config import read
from orchestai.data.tables import long_form, published
from orchestai.data.tables.long_form import Columns
from orchestai.data.tables.outcome_table import OutcomeTable, TableOutcome, UnusableOutcomeError, shown, table_of
from orchestai.errors import UserError
from orchestai.names import find_object
from orchestai.plugins import find_plugin, there_are

TableReader: TypeAlias = Callable[[Path], Iterable[TableOutcome | UnusableOutcomeError]]
"""Gives the outcomes of a file or folder in an order that is always the same.

What cannot be used is given as its reason, not raised, so that the others are kept and the reason is counted.
"""

_OWN_FORM: dict[str, TableReader] = {
    "routerbench": published.read_routerbench,
    "routellm": published.read_routellm,
    "llmrouter": published.read_llmrouter,
}
TABLE_READERS = (*long_form.PATTERNS, *_OWN_FORM)


def read_cards(path: Path) -> dict[str, str]:
    """Worker -> what it is, in words: a YAML or JSON mapping.

    Raises:
        UserError: it cannot be read, or is no such mapping.
    """
    cards = {str(name): card for name, card in read(path).items()}
    if wrong := [name for name, card in cards.items() if not isinstance(card, str) or not card.strip()]:
        raise UserError(f"{path}: the card of {shown(wrong[0])} is no text; write WORKER: what it is, in a sentence")
    return cards


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
    return table_of(source, chain.from_iterable(map(read, paths)), by_columns=reader in long_form.PATTERNS)


def find_table_reader(name: str, columns: Columns) -> TableReader:
    """A built-in reader or one of an installed package by its name, or a user's own as `MODULE:FUNCTION`.

    The module may lie in the working directory.

    Raises:
        UserError: there is no such reader, or it takes no columns.
    """
    if name in long_form.PATTERNS:
        return partial(long_form.read, reader=name, columns=columns)
    if columns:
        raise UserError(
            f"--columns: the reader {name!r} knows its columns; only {', '.join(long_form.PATTERNS)} take a mapping"
        )
    if name in _OWN_FORM:
        return _OWN_FORM[name]
    if (plugin := find_plugin("table_readers", name)) is not None:
        return plugin
    module, _, function = name.partition(":")
    if not module or not function:
        raise UserError(f"--reader: no reader {name!r}; {there_are('table_readers', TABLE_READERS, name)}")
    try:
        reader: TableReader = find_object(name)
    except (ImportError, AttributeError) as error:
        raise UserError(f"--reader: cannot load the reader {name!r}: {error}") from None
    if not callable(reader):
        raise UserError(f"--reader: {name!r} is no function that reads a path")
    return reader
