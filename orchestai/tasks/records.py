"""Reading files of tasks, tables and hub data sets as records, with errors that name the file and the line."""

from __future__ import annotations

import csv
import gzip
import json
import logging
import re
import zlib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TextIO, TypeAlias

from pydantic import ValidationError

from orchestai.errors import UserError, first_problem
from orchestai.installed import needed_for
from orchestai.tasks.task import Task

Record: TypeAlias = dict[str, Any]

logger = logging.getLogger(__name__)
_HALF = re.compile(r"\\u[dD][89a-fA-F]")
_TEST = re.compile(r"\bdef\s+(test|runTest)")


def read_records(source: str, hub_split: str, *, within: str = "") -> list[tuple[str, Record]]:
    """Records with where each stands, from a .json, .jsonl or .gz file, or from a Hugging Face data set's split.

    Args:
        within: where a file is one object, the name under which it holds the list of records.

    Raises:
        UserError: there is no such file or data set, or it is not JSON records.
    """
    path = Path(source)
    if path.is_file():
        return read_file(path, within=within)
    if path.suffix in {".json", ".jsonl", ".gz"} or path.is_absolute():
        raise UserError(f"{source}: no such task file")
    return _read_hub(source, hub_split)


def to_tasks(
    records: Sequence[tuple[str, Record]], convert: Callable[[Record], Task], *, judged: bool = True
) -> list[Task]:
    """Convert records.

    A record that says the same as one before under the same id is left out, and tasks that share an instruction are
    kept; both are counted in a warning that names the first.

    Args:
        judged: refuse a task without tests, answers, details and a scorer of the user's. Otherwise such are counted in
            a warning: a workflow may judge by itself.

    Raises:
        UserError: a record does not fit, has no instruction or nothing to judge an answer by, or has the id of another
            task. The message names its place, and the field.
    """
    tasks: list[Task] = []
    known: dict[str, tuple[str, Task]] = {}
    instructions: dict[str, str] = {}
    twice: list[str] = []
    alike: list[str] = []
    bare: list[str] = []
    for where, record in records:
        task = _convert(where, record, convert)
        before, first = known.setdefault(task.task_id, (where, task))
        if first is not task:
            if first.instruction != task.instruction:
                raise UserError(
                    f"{where}: the id {task.task_id!r} is that of another task already ({before}); give each an id of "
                    "its own"
                )
            twice.append(f"{where} repeats {before}")
            continue
        if (same := instructions.setdefault(task.instruction, where)) != where:
            alike.append(f"{where} has that of {same}")
        if not (task.test.strip() or any(map(str.strip, task.answers)) or ":" in task.scorer or task.details):
            bare.append(where)
        tasks.append(task)
    if bare and judged:
        raise UserError(
            f"{bare[0]}: this task has neither tests nor answers, so nothing could judge an answer; add some, or "
            f"remove it ({len(bare)} such tasks)"
        )
    if bare:
        logger.warning(
            "%d of %d tasks have neither tests nor answers, so they need a scorer or a workflow that judges: %s",
            len(bare),
            len(records),
            _some(bare),
        )
    if twice:
        logger.warning("left out %d of %d tasks, which are there twice: %s", len(twice), len(records), _some(twice))
    if alike:
        logger.warning(
            "%d of %d tasks have the instruction of another, so they count more than once: %s",
            len(alike),
            len(records),
            _some(alike),
        )
    return tasks


def _convert(where: str, record: Record, convert: Callable[[Record], Task]) -> Task:
    try:
        task = convert(record)
    except KeyError as error:
        raise UserError(f"{where}: field {error.args[0]!r} is missing; is this a file of another suite?") from None
    except ValidationError as error:
        raise UserError(f"{where}: field {first_problem(error)}") from None
    except (SyntaxError, TypeError, AttributeError, ValueError) as error:
        raise UserError(f"{where}: not a task: {type(error).__name__}: {error}") from None
    if not task.instruction.strip():
        raise UserError(f"{where}: task {task.task_id!r} has no instruction; write one, or remove it")
    if task.test and not has_tests(task.test):
        raise UserError(f"{where}: the tests of task {task.task_id!r} hold no test (a method `test...`); write one")
    return task.at(where)


def has_tests(source: str) -> bool:
    """Whether a source holds test methods."""
    return _TEST.search(source) is not None


def _some(places: Sequence[str]) -> str:
    return places[0] if len(places) == 1 else f"{places[0]}, and {len(places) - 1} more"


def read_file(path: Path, what: str = "task", *, within: str = "") -> list[tuple[str, Record]]:
    """Records of a .json, .jsonl or .gz file with where each stands; `what` is what messages call one.

    Args:
        within: see `read_records`.

    Raises:
        UserError: it cannot be read, holds no records, or something else.
    """
    opened = gzip.open if path.suffix.lower() == ".gz" else open
    try:
        with opened(path, "rt", encoding="utf-8-sig") as file:
            text = file.read()
    except (OSError, EOFError, zlib.error, UnicodeDecodeError) as error:
        raise UserError(f"{path}: cannot be read: {error}") from None
    if text.lstrip().startswith("[") or (within and f'"{within}"' in text):
        parsed = _parse(text, str(path))
        items = parsed[within] if isinstance(parsed, dict) else parsed
        records = [(f"{path}, item {number}", item) for number, item in enumerate(items, start=1)]
    else:
        lines = [(f"{path}, line {number}", line) for number, line in enumerate(text.split("\n"), start=1)]
        records = [(where, _parse(line, where)) for where, line in lines if line.strip()]
    for where, record in records:
        if not isinstance(record, dict):
            raise UserError(
                f"{where}: a {what} must be a JSON object, not {type(record).__name__}; correct or remove it"
            )
    if not records:
        raise UserError(f"{path}: holds no {what}s")
    return records


def _parse(text: str, where: str) -> Any:
    try:
        value = json.loads(text)
        if _HALF.search(text):  # half a pair of surrogates is no text that could be sent or saved
            whole = json.dumps(value, ensure_ascii=False).encode("utf-16", "surrogatepass").decode("utf-16", "replace")
            if json.loads(whole) != value:
                logger.warning("%s: half a character, which is read as \N{REPLACEMENT CHARACTER}", where)
            return json.loads(whole)
        return value
    except RecursionError:
        raise UserError(f"{where}: JSON that is nested too deeply; correct or remove it") from None
    except ValueError as error:
        raise UserError(f"{where}: not JSON: {error}; correct or remove it") from None


def _read_hub(name: str, split: str) -> list[tuple[str, Record]]:
    """`name` may end in a colon and the name of one of the data set's configurations."""
    with needed_for(f"data set {name!r}"):
        from datasets import load_dataset

    data_set, _, configuration = name.partition(":")
    try:
        rows = load_dataset(data_set, configuration or None, split=split)
    except Exception as error:  # the hub's client raises many unrelated types; all mean that the data is not there
        reason = " ".join(str(error).split())[:200]
        raise UserError(
            f"data set {name!r} (split {split!r}) cannot be loaded: {reason}; pass a file as tasks.path"
        ) from None
    return [(f"{name}, row {number}", dict(row)) for number, row in enumerate(rows, start=1)]


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
            header = [name.strip() for name in next((cells for cells in reader if any(map(str.strip, cells))), [])]
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
        if quotes % 2 == 0 and line.strip():
            break
    return "".join(lines)


def _read_parquet(path: Path) -> list[tuple[str, Record]]:
    from pyarrow import ArrowException, parquet

    try:
        rows = parquet.read_table(path).to_pylist()
    except (OSError, ArrowException) as error:
        raise UserError(f"{path}: cannot be read as Parquet: {' '.join(str(error).split())[:200]}") from None
    return [(f"{path}, row {number}", row) for number, row in enumerate(rows, start=1)]
