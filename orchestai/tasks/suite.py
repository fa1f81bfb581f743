"""A suite: named splits of tasks, loaded when they are asked for."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping

from orchestai.errors import UserError
from orchestai.tasks.task import Task


class Suite:
    """Splits by name; each is loaded on first use and kept.

    Attributes:
        name: the suite's name.
        splits: names of its splits.
    """

    def __init__(self, name: str, loaders: Mapping[str, Callable[[], list[Task]]]) -> None:
        self.name = name
        self.splits = tuple(loaders)
        self._loaders = dict(loaders)
        self._loaded: dict[str, list[Task]] = {}

    def split(self, name: str) -> list[Task]:
        """The tasks of a split, in the suite's order.

        Raises:
            UserError: the suite has no such split, or its data cannot be read.
        """
        if name not in self._loaders:
            raise UserError(f"suite {self.name!r} has no split {name!r}; it has {', '.join(self.splits)}")
        if name not in self._loaded:
            self._loaded[name] = self._loaders[name]()
        return list(self._loaded[name])


def data_fingerprint(tasks: Iterable[Task]) -> str:
    """sha256 over everything that the tasks say, in order."""
    digest = hashlib.sha256()
    for task in tasks:
        digest.update(task.model_dump_json().encode() + b"\n")
    return digest.hexdigest()
