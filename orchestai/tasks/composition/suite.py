"""The composition suite as a suite: generated on demand, or read from a file that was written before."""

from __future__ import annotations

from functools import cache, partial

from orchestai.tasks.composition.generate import SPLITS, generate
from orchestai.tasks.records import read_records, to_tasks
from orchestai.tasks.suite import Suite
from orchestai.tasks.task import Task


def load(path: str | None = None) -> Suite:
    """Generated from the seed, split by split, once per process; or read from a file, as `--output` writes them."""
    if path is None:
        return _generated()

    @cache
    def tasks() -> list[Task]:
        return to_tasks(read_records(path, "train"), lambda record: Task(**record))

    def split(name: str) -> list[Task]:
        return [task for task in tasks() if task.split == name]

    return Suite("composition", {name: partial(split, name) for name in SPLITS})


@cache
def _generated() -> Suite:
    return Suite("composition", {name: partial(generate, split) for name, split in SPLITS.items()})
