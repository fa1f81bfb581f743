"""What the suite consists of, counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from orchestai.tasks.composition.graph import Composition
from orchestai.tasks.composition.operation import Operation
from orchestai.tasks.suite import data_fingerprint
from orchestai.tasks.task import Task


def count(pairs: Mapping[str, Sequence[tuple[Task, Composition]]], operations: Sequence[Operation]) -> dict[str, Any]:
    """Counts of the catalogue and of each split, and compositions that a split shares with train."""
    train = {composition.signature for _, composition in pairs["train"]}
    return {
        "operations": len(operations),
        "phrasings": sum(len(operation.phrasings) for operation in operations),
        "operations_by_type": dict(Counter(operation.task_type for operation in operations)),
        "splits": {name: _count_split(members) for name, members in pairs.items()},
        "shared_with_train": {
            name: sum(composition.signature in train for _, composition in members)
            for name, members in pairs.items()
            if name != "train"
        },
    }


def _count_split(pairs: Sequence[tuple[Task, Composition]]) -> dict[str, Any]:
    tasks = [task for task, _ in pairs]
    compositions = [composition for _, composition in pairs]
    steps = [node for composition in compositions for node in composition.nodes]
    return {
        "tasks": len(tasks),
        "distinct_compositions": len({composition.signature for composition in compositions}),
        "operations_used": len({node.operation.name for node in steps}),
        "spans_used": len(
            {subtask.instruction for task in tasks if task.reference for subtask in task.reference.subtasks}
        ),
        "tasks_by_steps": dict(sorted(Counter(len(composition.nodes) for composition in compositions).items())),
        "share_not_chains": sum(not composition.is_chain for composition in compositions) / len(compositions),
        "longest_instruction": max(len(task.instruction) for task in tasks),
        "sha256": data_fingerprint(tasks),
    }
