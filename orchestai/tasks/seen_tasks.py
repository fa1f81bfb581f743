"""What weights have seen of tasks: kept in every checkpoint, so that no evaluation takes it for unseen."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from orchestai.tasks.splits import task_hash

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
