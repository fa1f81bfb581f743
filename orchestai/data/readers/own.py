"""Plans of this program: training files, plans as it prints them, and synthetic instructions."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

from orchestai.data.readers.files import files, load
from orchestai.data.readers.plan import ReadPlan, SourcePlan, SourceStep, UnusablePlanError, one_line, plans_of
from orchestai.data.training_file import Entry, TrainingExample
from orchestai.errors import UserError
from orchestai.tasks.instructions import NAME, SPLIT_OF, SyntheticInstruction
from orchestai.tasks.records import read_file
from orchestai.workflow import Workflow, WorkflowError


def read_orchestai(path: Path) -> Iterator[ReadPlan]:
    """Entries of a JSON list or of JSON lines.

    An entry with `workflow` or `targets` is an example of a training file and stays as it is. Any other is a plan:
    `instruction`, `subtasks` as `orchestai plan` prints them, and if need be `id`, `source`, `licence` and `seconds`
    (by subtask id).
    """
    for file in files(path, "*.json", "*.jsonl"):
        entries = load(file)
        if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
            raise UserError(f"{file}: a list of plans is wanted, or one plan a line")
        yield from plans_of(partial(_entry, file), count(), entries)


def _entry(file: Path, index: int, entry: dict[str, Any]) -> Entry | SourcePlan:
    if "workflow" in entry or "targets" in entry:
        return Entry(entry, f"{file}: example {index}")
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


def read_instructions(path: Path) -> Iterator[ReadPlan]:
    """Read the instructions of all styles in a folder, or of one file.

    Each stays in the split of its style, so that no style is both learned from and tested on. Styles that the suite
    does not know are training data.
    """
    for file in files(path, "*.jsonl"):
        records = [record for _, record in read_file(file)]
        yield from plans_of(_instruction_example, records, [SPLIT_OF.get(file.stem, "train")] * len(records))


def _instruction_example(record: dict[str, Any], split: Any) -> TrainingExample:
    instruction = SyntheticInstruction.model_validate(record)
    return TrainingExample(
        instruction=instruction.instruction,
        workflow=instruction.workflow(),
        task_id=instruction.id,
        suite=NAME,
        licence="Apache-2.0",
        split=split,
    )
