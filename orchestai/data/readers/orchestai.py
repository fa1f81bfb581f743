"""This program's own files: training files, and plans with the instruction that they are for."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from orchestai.data.readers.files import files, load
from orchestai.data.readers.plan import ReadPlan, SourcePlan, SourceStep, UnusablePlanError, one_line, plans_of
from orchestai.data.training_file import Entry
from orchestai.errors import UserError
from orchestai.workflow import Workflow, WorkflowError


def read(path: Path) -> Iterator[ReadPlan]:
    """Entries of a JSON list or of JSON lines.

    An entry with `workflow` or `targets` is an example of a training file and stays as it is. Any other is a plan:
    `instruction`, `subtasks` as `orchestai plan` prints them, and if need be `id`, `source`, `licence` and `seconds`
    (by subtask id).
    """
    for file in files(path, "*.json", "*.jsonl"):
        entries = load(file)
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            raise UserError(f"{file}: a list of plans is wanted, or one plan a line")
        yield from plans_of(partial(_read, file), count(), entries)


def _read(file: Path, index: int, entry: dict[str, Any]) -> Entry | SourcePlan:
    if "workflow" in entry or "targets" in entry:
        return Entry(entry, f"{file}: example {index}")
    return _plan(file, index, entry)


def _plan(file: Path, index: int, entry: dict[str, Any]) -> SourcePlan:
    if not {"instruction", "subtasks"} <= entry.keys():
        raise UserError(f"{file}: entry {index}: a plan needs `instruction` and `subtasks`")
    try:
        workflow = Workflow(entry["subtasks"])
    except WorkflowError as error:
        raise UnusablePlanError(f"not a workflow: {error}") from None
    seconds = entry.get("seconds", {})
    return SourcePlan(
        id=str(entry.get("id", f"{file.stem}/{index}")),
        source=str(entry.get("source", "own")),
        licence=str(entry.get("licence", "")),
        task=one_line(entry["instruction"]),
        steps=tuple(SourceStep(s.id, one_line(s.instruction), seconds.get(s.id)) for s in workflow.subtasks),
        edges=frozenset(workflow.edges()),
    )
