"""Synthetic instructions with the words of their steps in them: one file per style, one JSON object a line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from orchestai.data.readers.files import files
from orchestai.data.readers.plan import ReadPlan, plans_of
from orchestai.data.training_file import TrainingExample
from orchestai.tasks.instructions import NAME, SPLIT_OF, SyntheticInstruction
from orchestai.tasks.records import read_file


def read(path: Path) -> Iterator[ReadPlan]:
    """Read the instructions of all styles in a folder, or of one file.

    Each stays in the split of its style, so that no style is both learned from and tested on. Styles that the suite
    does not know are training data.
    """
    for file in files(path, "*.jsonl"):
        records = [record for _, record in read_file(file)]
        yield from plans_of(_example, records, [SPLIT_OF.get(file.stem, "train")] * len(records))


def _example(record: dict[str, Any], split: Any) -> TrainingExample:
    instruction = SyntheticInstruction.model_validate(record)
    return TrainingExample(
        instruction=instruction.instruction,
        workflow=instruction.workflow(),
        task_id=instruction.id,
        suite=NAME,
        licence="Apache-2.0",
        split=split,
    )
