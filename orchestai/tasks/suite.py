"""A suite: named splits of tasks, loaded when they are asked for."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Container, Iterable, Mapping
from dataclasses import dataclass
from random import Random
from typing import Protocol

from orchestai.errors import UserError
from orchestai.tasks.task import Task
from orchestai.workflow import Workflow


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


@dataclass(frozen=True)
class Variation:
    """Another instruction of a suite, made from a known one.

    Attributes:
        plan: its steps, without workers.
        origin: for each step the place of the one that it was made from.
    """

    instruction: str
    plan: Workflow
    origin: tuple[int, ...]


class StepCatalog(Protocol):
    """What a suite whose tasks are composed of steps of its own knows of plans; an optional capability of suites."""

    def canonical(self, plan: Workflow) -> dict[str, str] | None:
        """Subtask id -> canonical source of `step`; None where a step is not in the catalog."""

    def signature(self, plan: Workflow) -> str | None:
        """What the plan computes, blind to its wording; None unless it is a plan that the suite could have made."""

    def vary(self, plan: Workflow, usable: Container[str], held_out: Container[str], rng: Random) -> Variation | None:
        """A variation of the plan; None where this try gives none.

        Args:
            usable: the words that a step may get if it does not keep its own.
            held_out: signatures that it must not have.
        """


def data_fingerprint(tasks: Iterable[Task]) -> str:
    """sha256 over everything that the tasks say, in order."""
    digest = hashlib.sha256()
    for task in tasks:
        digest.update(task.model_dump_json().encode() + b"\n")
    return digest.hexdigest()
