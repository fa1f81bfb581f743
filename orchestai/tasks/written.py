"""Tasks in this package's own format: a JSON object per line with the fields of `Task`."""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from pathlib import Path

from orchestai.errors import UserError
from orchestai.storage.artifacts import write_text
from orchestai.tasks.records import read_file, to_tasks
from orchestai.tasks.suite import Suite
from orchestai.tasks.task import Task


def load(path: str | None = None) -> Suite:
    """The tasks of a file; each says itself which split it belongs to, and there are no others.

    Raises:
        UserError: no file is named, or it holds no tasks.
    """
    if path is None:
        raise UserError("the suite `written` has no data of its own; set tasks.path to a file of tasks")

    splits: dict[str, list[Task]] = {}
    for task in to_tasks(read_file(Path(path)), lambda record: Task(**record), judged=False):
        splits.setdefault(task.split, []).append(task)
    return Suite("written", {name: partial(list, tasks) for name, tasks in splits.items()})


def write_tasks(path: Path | str, tasks: Iterable[Task]) -> None:
    """Write what `load` reads; fields that say nothing are left out."""
    write_text(path, "".join(task.model_dump_json(exclude_defaults=True) + "\n" for task in tasks))
