"""Rows of JSON, CSV and Parquet files, each with where it stands."""

from __future__ import annotations

import csv
import gzip
import re
import zlib
from pathlib import Path
from typing import TextIO

from orchestai.errors import UserError
from orchestai.tasks.records import Record, read_file

_SEPARATORS = {".csv": ",;\t", ".tsv": "\t"}
"""Of several, a file has the one that is most often between the column names."""
_QUOTED = re.compile(r'"[^"]*"')
csv.field_size_limit(2**31 - 1)  # for all readers of the process; as it is, a cell may hold 131,072 characters


def is_csv(path: Path) -> bool:
    """Whether the file's name says that separators stand between its cells."""
    return _kind(path) in _SEPARATORS


def read_table(path: Path, what: str = "task") -> list[tuple[str, Record]]:
    """The rows of a .jsonl, .json, .csv, .tsv (each also with .gz) or .parquet file by column name.

    Args:
        what: what messages call a row.

    Raises:
        UserError: it is not there, cannot be read, or has no rows.
    """
    if not path.is_file():
        raise UserError(f"{path}: no such {what} file; a path is looked up here, then beside the configuration")
    if path.suffix.lower() == ".parquet":
        rows = _read_parquet(path)
    elif is_csv(path):
        rows = _read_csv(path, _SEPARATORS[_kind(path)])
    else:
        return read_file(path, what)
    if not rows:
        raise UserError(f"{path}: holds no {what}s")
    return rows


def _kind(path: Path) -> str:
    return Path(path.name.lower().removesuffix(".gz")).suffix


def _read_csv(path: Path, separators: str) -> list[tuple[str, Record]]:
    rows: list[tuple[str, Record]] = []
    opened = gzip.open if path.suffix.lower() == ".gz" else open
    where = f"{path}, line 1"
    try:
        with opened(path, "rt", encoding="utf-8-sig", newline="") as file:
            names = _QUOTED.sub("", _first_record(file))
            file.seek(0)
            reader = csv.reader(file, delimiter=max(separators, key=names.count), strict=True, skipinitialspace=True)
            header = [name.strip() for name in next(reader, [])]
            if twice := next((name for name in header if name and header.count(name) > 1), None):
                raise UserError(f"{where}: two columns are called {twice!r}; rename or remove one")
            where = f"{path}, line {reader.line_num + 1}"
            for cells in reader:
                if not any(cells[len(header) :]):
                    del cells[len(header) :]
                if any(cell.strip() for cell in cells):
                    if len(cells) != len(header):
                        remedy = "quote a cell that holds a separator, or add what is missing"
                        raise UserError(f"{where}: {len(cells)} cells under {len(header)} column names; {remedy}")
                    rows.append((where, dict(zip(header, cells, strict=True))))
                where = f"{path}, line {reader.line_num + 1}"
    except UnicodeDecodeError as error:
        raise UserError(f"{path}: is no UTF-8 ({error.reason} after {error.start} bytes); save it as UTF-8") from None
    except csv.Error as error:
        raise UserError(
            f'{where}: cannot be read as CSV: {error}; in a cell in quotes, write each quote as two ("")'
        ) from None
    except (OSError, EOFError, zlib.error) as error:
        raise UserError(f"{path}: cannot be read as CSV: {error}") from None
    return rows


def _first_record(file: TextIO) -> str:
    """The lines up to where all quotes are closed."""
    lines: list[str] = []
    quotes = 0
    for line in file:
        lines.append(line)
        quotes += line.count('"')
        if quotes % 2 == 0:
            break
    return "".join(lines)


def _read_parquet(path: Path) -> list[tuple[str, Record]]:
    from pyarrow import ArrowException, parquet

    try:
        rows = parquet.read_table(path).to_pylist()
    except (OSError, ArrowException) as error:
        raise UserError(f"{path}: cannot be read as Parquet: {' '.join(str(error).split())[:200]}") from None
    return [(f"{path}, row {number}", row) for number, row in enumerate(rows, start=1)]
