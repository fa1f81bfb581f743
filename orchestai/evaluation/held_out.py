"""Which tasks an evaluation may use: those that nothing that is evaluated has learned from or was selected on."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Generic, TypeVar

from orchestai.errors import UserError
from orchestai.tasks.splits import SeenTasks, TaskSplits
from orchestai.tasks.task import Task

T = TypeVar("T")


@dataclass(frozen=True)
class Exposure:
    """How many tasks one checkpoint learned from and was further selected on, and whether it says all it has seen."""

    learned: int
    selected_on: int
    complete: bool


@dataclass(frozen=True)
class HeldOut(Generic[T]):
    """What is evaluated on.

    Attributes:
        kept: the tasks.
        unseen: how many there were that could be evaluated on, before `tasks.limit`.
        total: how many there were to choose from.
        included: how many of `kept` a checkpoint has seen, as `tasks.include_learned` asks for.
        exposures: by checkpoint, how many of all it has seen.
        what: what the tasks are called.
    """

    kept: Sequence[T]
    unseen: int
    total: int
    included: int
    exposures: Mapping[str, Exposure]
    what: str

    def remarks(self) -> list[str]:
        """What a reader of the figures must know, a line each; nothing where all tasks are known to be unseen."""
        exposed = "; ".join(
            f"{name} learned from {its.learned} and was selected on {its.selected_on}"
            for name, its in self.exposures.items()
            if its.learned or its.selected_on
        )
        lines = []
        if self.included:
            lines.append(
                f"{self.what}: {self.included} of these {len(self.kept)} tasks are not held out, so figures are "
                f"too high (tasks.include_learned); of all {self.total}, {exposed}"
            )
        elif exposed:
            lines.append(
                f"{self.what}: {self.unseen} of {self.total} tasks are held out; left out {self.total - self.unseen}: "
                f"{exposed}"
            )
        lines += [
            f"{name}: what it learned from is unknown, as a checkpoint in its history does not say; if these tasks are "
            "among it, its figures are too high"
            for name, its in self.exposures.items()
            if not its.complete
        ]
        return lines

    def to_dict(self, name: Callable[[T], str]) -> dict[str, Any]:
        """For files of figures; `name` gives a task's id."""
        return {
            "evaluated": [name(task) for task in self.kept],
            "held_out": self.unseen,
            "of": self.total,
            "learned_among_evaluated": self.included,
            "checkpoints": {checkpoint: asdict(its) for checkpoint, its in self.exposures.items()},
        }


def hold_out(
    tasks: Sequence[T],
    seen: Mapping[str, SeenTasks],
    instruction: Callable[[T], str],
    *,
    what: str,
    for_tests: Callable[[T], bool] = lambda _: True,
    include_learned: bool = False,
    limit: int | None = None,
) -> HeldOut[T]:
    """The first `limit` of those tasks that no checkpoint has seen, or, with `include_learned`, of all.

    Args:
        seen: by the checkpoint's name.
        instruction: a task's.
        what: what the tasks are called, such as the suite's name.
        for_tests: whether a task may be evaluated on, seen or not.
    """
    exposed = [any(instruction(task) in its for its in seen.values()) for task in tasks]
    usable = [
        (task, its)
        for task, its in zip(tasks, exposed, strict=True)
        if for_tests(task) and (include_learned or not its)
    ]
    if tasks and not usable:
        names = [name for name, its in seen.items() if any(instruction(task) in its for task in tasks)]
        raise UserError(
            f"{what}: none of {len(tasks)} tasks is left to evaluate on, as they are among those that "
            f"{' and '.join(names)} learned from or was selected on; evaluate on others (tasks.eval_split, "
            "tasks.suite, tasks.path, --plans), or set tasks.include_learned=true to see how well learned ones are done"
        )
    cut, exposures = usable[:limit], {}
    for name, its in seen.items():
        learned = sum(its.has_learned(instruction(task)) for task in tasks)
        exposures[name] = Exposure(learned, sum(instruction(task) in its for task in tasks) - learned, its.complete)
    return HeldOut(
        kept=[task for task, _ in cut],
        unseen=len(usable),
        total=len(tasks),
        included=sum(its for _, its in cut),
        exposures=exposures,
        what=what,
    )


def held_out_tasks(splits: TaskSplits, seen: Mapping[str, SeenTasks]) -> HeldOut[Task]:
    """The suite's tasks for tests that no checkpoint has seen.

    Where the suite was divided here, and a checkpoint has seen any of it, these are of the test part alone: what
    training did not come to of the other parts may be the hardest of them. Where none has seen any, these are all
    tasks of the suite, as in published figures.
    """
    whole = splits.whole
    touched = any(task.instruction in its for task in whole for its in seen.values())
    tests = {task.task_id for task in (splits.test if touched and not splits.settings.include_learned else whole)}
    return hold_out(
        whole,
        seen,
        lambda task: task.instruction,
        what=splits.suite.name,
        for_tests=lambda task: task.task_id in tests,
        include_learned=splits.settings.include_learned,
        limit=splits.settings.limit,
    )
