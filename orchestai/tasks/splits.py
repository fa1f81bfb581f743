"""What is learned from, selected on and tested on: one division of the tasks, which every command makes alike."""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from orchestai.config import TasksConfig
from orchestai.tasks.suite import Suite
from orchestai.tasks.suites import open_suite
from orchestai.tasks.task import Task

Part: TypeAlias = Literal["train", "validation", "test"]
PARTS: Final[tuple[Part, ...]] = ("train", "validation", "test")
"""In the order in which few tasks are shared out."""
_WORD = re.compile(r"\w+")


def words(text: str) -> str:
    """The words of a text in lower case; its other signs where it has no words."""
    return " ".join(_WORD.findall(text.casefold()) or text.split())


def task_hash(instruction: str) -> str:
    """sha256 of an instruction's words as 16 hexadecimal digits: the same for one task under any id, in any file."""
    return hashlib.sha256(words(instruction).encode("utf-8", "surrogatepass")).hexdigest()[:16]


def place(text: str, purpose: str) -> float:
    """A number in [0, 1) that depends on the text's words alone; independent numbers for different purposes."""
    digest = hashlib.sha256(f"{purpose}\0{words(text)}".encode("utf-8", "surrogatepass")).digest()
    return int.from_bytes(digest[:8], "big") / 2**64


def part_of(text: str, settings: TasksConfig, parts: Sequence[Part] = PARTS) -> Part:
    """The part of a task, by its words: `test_fraction` of all tasks, `val_fraction` of the others, and the rest.

    Each fold keeps other tasks for tests. A part that is not among `parts` gets none.
    """
    share, fold = settings.test_fraction, settings.test_fold
    if "test" in parts and fold * share <= place(text, "test") < (fold + 1) * share:
        return "test"
    return "validation" if "validation" in parts and place(text, "validation") < settings.val_fraction else "train"


def divide(texts: Sequence[str], settings: TasksConfig, parts: Sequence[Part] = PARTS) -> list[Part]:
    """The part of each task. Where tasks are so few that a part has none, it gets one that another part can spare.

    Texts with the same words are in the same part.
    """
    wanted = [part for part in PARTS if part in parts and (part != "test" or settings.test_fraction)]
    found = {words(text): part_of(text, settings, wanted) for text in texts}
    for part in wanted:
        if not found or part in found.values():
            continue
        counts = Counter(found.values())
        giver = max(wanted, key=lambda one: (counts[one], wanted.index(one)))
        if counts[giver] > 1 or wanted.index(giver) > wanted.index(part):
            found[min((text for text in found if found[text] == giver), key=lambda text: place(text, part))] = part
    return [found[words(text)] for text in texts]


class TaskSplits:
    """The parts of a suite's tasks.

    A suite's own splits stand: `tasks.split` is learned from, `validation` is selected on, `tasks.eval_split` tests.
    What a suite does not have is a share of what is learned from, by a hash of the instructions' words, so that it
    depends neither on ids nor on files nor on `tasks.limit`. A file that gives the same tasks for every split, or tasks
    of one split alone, has no splits of its own.

    Attributes:
        shared_out: the parts that are taken by the hash; `train` is the rest.

    Raises:
        UserError: the suite has no split `tasks.split`.
    """

    def __init__(self, suite: Suite, settings: TasksConfig) -> None:
        self.suite = suite
        self.settings = settings
        given = suite.splits
        self._from_file = settings.path is not None and Path(settings.path).is_file()
        if self._from_file and len(filled := tuple(name for name in given if suite.split(name))) == 1:
            given = filled
        self._learned = given[0] if len(given) == 1 else settings.split
        suite.split(self._learned)  # which raises where there is none
        self._validation, self._test = (self._own(name, given) for name in ("validation", settings.eval_split))
        own = {"validation": self._validation, "test": self._test}
        self.shared_out: tuple[Part, ...] = tuple(part for part in PARTS if part in own and own[part] is None)

    @cached_property
    def train(self) -> list[Task]:
        """Tasks to learn from; without those that the validation part has in the same words."""
        held_out = {task_hash(task.instruction) for task in self.validation}
        return [task for task in self._part("train") if task_hash(task.instruction) not in held_out]

    @cached_property
    def validation(self) -> list[Task]:
        """Tasks that choose among epochs, updates and settings; nothing is learned from them."""
        return self._part("validation") if self._validation is None else self.suite.split(self._validation)

    @cached_property
    def test(self) -> list[Task]:
        """Tasks that neither learning nor selection sees."""
        return self._part("test") if self._test is None else self.suite.split(self._test)

    @property
    def whole(self) -> list[Task]:
        """The tasks that `test` is a part of: of a suite with a split for tests, these are the same."""
        return list(self._divided) if self._test is None else self.test

    def describe(self) -> str:
        """What is shared out, in a line; empty where the suite has all splits itself."""
        if not self.shared_out:
            return ""
        sizes = ", ".join(f"{part} {len(getattr(self, part))}" for part in ("train", *self.shared_out))
        return (
            f"{self.suite.name} has no {' and no '.join(self.shared_out)} split of its own, so its tasks are divided "
            f"by a hash of their words: {sizes}"
        )

    def _own(self, name: str, given: Sequence[str]) -> str | None:
        """The name of a split that the suite itself has, beside the one that is learned from."""
        if name == self._learned or name not in given:
            return None
        if self._from_file and _hashes(self.suite.split(name)) in (set(), _hashes(self.suite.split(self._learned))):
            return None
        return name

    def _part(self, part: Part) -> list[Task]:
        return [task for task in self._divided if task.split == part]

    @cached_property
    def _divided(self) -> list[Task]:
        """The split that is learned from, each task under the part that it is in."""
        tasks = self.suite.split(self._learned)
        parts = divide([task.instruction for task in tasks], self.settings, ("train", *self.shared_out))
        return [task.model_copy(update={"split": part}) for task, part in zip(tasks, parts, strict=True)]


def open_splits(settings: TasksConfig) -> TaskSplits:
    """The parts of the configured suite.

    Raises:
        UserError: there is no such suite or split, or its data cannot be read.
    """
    return TaskSplits(open_suite(settings), settings)


def _hashes(tasks: Iterable[Task]) -> set[str]:
    return {task_hash(task.instruction) for task in tasks}


SEEN = "seen_tasks"
"""The key of a checkpoint that has it."""


@dataclass(frozen=True)
class SeenTasks:
    """Tasks as hashes of their words, by which the same task is recognized under another id and in another file.

    Attributes:
        learned: tasks that training drew from, in whatever phase.
        selected_on: tasks that chose among epochs or updates.
        complete: False where a checkpoint in the weights' history does not say what it has seen.
    """

    learned: frozenset[str] = frozenset()
    selected_on: frozenset[str] = frozenset()
    complete: bool = True

    @classmethod
    def of(cls, learned: Iterable[str], selected_on: Iterable[str] = ()) -> SeenTasks:
        """From instructions."""
        return cls(frozenset(map(task_hash, learned)), frozenset(map(task_hash, selected_on)))

    @classmethod
    def of_checkpoint(cls, facts: Mapping[str, Any], key: str = SEEN) -> SeenTasks:
        """What the keys of a checkpoint say; of one that does not say it, nothing, and that this is not all."""
        found = facts.get(key)
        if not isinstance(found, Mapping):
            return cls(complete=False)
        return cls(frozenset(found["learned"]), frozenset(found["selected_on"]), bool(found["complete"]))

    def facts(self, key: str = SEEN) -> dict[str, Any]:
        """The key of a checkpoint with plain values."""
        plain = {"learned": sorted(self.learned), "selected_on": sorted(self.selected_on), "complete": self.complete}
        return {key: plain}

    def __or__(self, other: SeenTasks) -> SeenTasks:
        """What weights have seen that were trained on."""
        return SeenTasks(
            self.learned | other.learned, self.selected_on | other.selected_on, self.complete and other.complete
        )

    def has_learned(self, instruction: str) -> bool:
        return task_hash(instruction) in self.learned

    def __contains__(self, instruction: str) -> bool:
        found = task_hash(instruction)
        return found in self.learned or found in self.selected_on


NOTHING_SEEN = SeenTasks()
"""Of a model before any training here."""
