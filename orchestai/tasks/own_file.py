"""Tasks of the user's own: a file whose columns the configuration maps to the fields of a task."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, get_args

from orchestai.config.running import TaskField
from orchestai.errors import UserError
from orchestai.plugins import did_you_mean
from orchestai.tasks.code.assertions import as_test_case
from orchestai.tasks.records import Record, has_tests, is_csv, read_table, to_tasks
from orchestai.tasks.suite import Suite
from orchestai.tasks.task import Task
from orchestai.text.syntax import parse, parse_literal

_CALLED: dict[TaskField, str] = {
    "instruction": "instruction question prompt query input task problem text",
    "answers": "answers answer expected reference target label output solution result",
    "tests": "tests test",
    "task_id": "task_id id",
}
"""Field of a task -> what its column may be called."""


def read_as_called(path: Path, columns: Mapping[TaskField, str], scorer: str) -> list[Task]:
    """The different tasks of a file whose columns are called as such columns are, or as `columns` says.

    Args:
        scorer: of tasks that name none; a named one that compares answers leaves tasks with tests alone to their tests.
    """
    present = {column.strip().lower(): column for _, row in read_table(path) for column in row if column}
    called: dict[TaskField, str] = {
        field: next(present[name] for name in names.split() if name in present)
        for field, names in _CALLED.items()
        if set(names.split()) & present.keys()
    }
    suite = load(str(path), called | {field: name for field, name in columns.items() if name in present.values()})
    found: dict[str, Task] = {}
    for task in (task for split in suite.splits for task in suite.split(split)):
        own = task.scorer or (task.test and not task.answers and ":" not in scorer)
        scored = task if own else task.model_copy(update={"scorer": scorer})
        found.setdefault(" ".join(task.instruction.split()), scored)
    return list(found.values())


def load(path: str | None = None, columns: Mapping[TaskField, str] | None = None) -> Suite:
    """The tasks of a .jsonl, .json, .csv, .tsv or .parquet file, named after it.

    A task needs an instruction, and `tests` (test methods, or plain assertions), `answers` (one, or a list of which any
    is right) or a scorer of its own. Without ids, tasks are numbered. A `split` column makes splits. Columns that no
    field has are the task's `details`, which a scorer of the user's may read. In CSV, a list of texts as Python or JSON
    prints it is one.

    Args:
        columns: field -> its column; a field that is not there has its own name in the file.

    Raises:
        UserError: no file is named, it has no such column, or a row is no task; the message names the row and column.
    """
    if path is None:
        raise UserError("the suite `file` has no data of its own; set tasks.path to a file of tasks")
    named: dict[TaskField, str] = {field: (columns or {}).get(field, field) for field in get_args(TaskField)}
    rows = read_table(Path(path))
    if "reference" not in (columns or {}) and not all(_may_be_plan(row.get("reference")) for _, row in rows):
        del named["reference"]  # a column of the file's own, which it calls so
    if is_csv(Path(path)):
        lists = {named[field] for field in ("answers", "tests", "parameters")}
        rows = [
            (where, {name: _listed(cell) if name in lists else cell for name, cell in row.items()})
            for where, row in rows
        ]
    present = {column for _, row in rows for column in row}
    for field in {"instruction", *(columns or {})}:
        if named[field] not in present:
            raise UserError(
                f"{path}: no column {named[field]!r} for the {field}; it has {', '.join(sorted(present))}. Map it with "
                f"tasks.columns.{field}=COLUMN{did_you_mean(named[field], present)}"
            )
    name = Path(path).name.partition(".")[0]
    numbered = [(where, {**row, "": number}) for number, (where, row) in enumerate(rows, start=1)]
    splits: dict[str, list[Task]] = {}
    for task in to_tasks(numbered, partial(_task, name, named), judged=False):
        splits.setdefault(task.split, []).append(task)
    return Suite(name, {split: partial(list, tasks) for split, tasks in splits.items()})


def _task(suite: str, named: Mapping[TaskField, str], record: Record) -> Task:
    given: dict[str, Any] = {}
    for field, column in named.items():
        value = record.get(column)
        if _is_absent(value):
            continue
        target, convert = _FIELDS[field]
        try:
            given[target] = convert(value)
        except (ValueError, SyntaxError, TypeError) as error:
            raise ValueError(f"column {column!r} ({field}): {error}") from None
    taken = {*named.values(), ""}
    details = {name: value for name, value in record.items() if name not in taken and _is_plain(value)}
    return Task(
        **{"task_id": f"{suite}/{record['']}", "instruct_prompt": "", "suite": suite, "details": details, **given}
    )


def _may_be_plan(value: Any) -> bool:
    return _is_absent(value) or isinstance(value, dict | list) or '"instruction"' in str(value)


_NO_COMMA = re.compile(r"(?<=['\"])[ \n]+(?=['\"])")
"""As NumPy prints lists."""


def _listed(cell: Any) -> Any:
    """The texts of a list that was printed into a cell; any other cell as it is."""
    if isinstance(cell, str) and cell.strip().startswith("["):
        for read in (parse_literal, json.loads):
            with suppress(SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
                value = read(_NO_COMMA.sub(", ", cell.strip()))
                return value if isinstance(value, list) and all(isinstance(one, str) for one in value) else cell
    return cell


def _is_absent(value: Any) -> bool:
    return value is None or (isinstance(value, str) and not value.strip()) or value != value


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(_text(one) for one in (value if isinstance(value, list | tuple) else [value]) if not _is_absent(one))


def _text(value: Any) -> str:
    """The text that a cell stands for: whole numbers of a column that lacks one are read as floats."""
    if isinstance(value, list | tuple | dict) or (isinstance(value, float) and not math.isfinite(value)):
        raise ValueError(f"must be a text or a number, not {str(value)[:40]}")
    if isinstance(value, float) and value.is_integer() and abs(value) < 2**53:
        return str(int(value))
    return value.decode() if isinstance(value, bytes) else str(value)


def _identifier(value: Any) -> str:
    if not _text(value).isidentifier():
        raise ValueError(f"{value!r} is no name of a function")
    return str(value)


def _tests(value: Any) -> str:
    """Test methods as they are; assertions as a test case."""
    source = "\n".join(_texts(value))
    return source if has_tests(source) else as_test_case(parse(source))


def _names(value: Any) -> tuple[str, ...]:
    return tuple(name.strip() for name in value.split(",")) if isinstance(value, str) else _texts(value)


def _parsed(value: Any) -> Any:
    return json.loads(value) if isinstance(value, str) else value


_FIELDS: dict[TaskField, tuple[str, Callable[[Any], Any]]] = {
    "instruction": ("instruct_prompt", _text),
    "answers": ("answers", _texts),
    "tests": ("test", _tests),
    "scorer": ("scorer", _text),
    "task_id": ("task_id", _text),
    "split": ("split", _text),
    "reference": ("reference", _parsed),
    "entry_point": ("entry_point", _identifier),
    "parameters": ("parameters", _names),
    "complete_prompt": ("complete_prompt", _text),
    "canonical_solution": ("canonical_solution", _text),
}
"""Field of `tasks.columns` -> field of `Task`, and what makes a cell its value."""


def _is_plain(value: Any) -> bool:
    """Whether a value can be kept as JSON."""
    try:
        json.dumps(value, allow_nan=False)
    except (TypeError, ValueError):
        return False
    return True
