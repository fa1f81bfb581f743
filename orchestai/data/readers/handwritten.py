"""Instructions written by hand, with the words of their steps in them: one file per hand, one JSON object a line."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from orchestai.data.readers.files import files
from orchestai.data.readers.plan import ReadPlan, plans_of
from orchestai.data.training_file import TrainingExample
from orchestai.tasks.handwritten.instruction import HandwrittenInstruction
from orchestai.tasks.handwritten.suite import NAME, SPLIT_OF
from orchestai.tasks.records import read_file


def read(path: Path) -> Iterator[ReadPlan]:
    """The instructions of all hands in a folder, or of one file; hands that the suite does not know are to learn from.

    Each stays in the part of its hand, so that what is tested on was written by nobody who was learned from.
    """
    for file in files(path, "*.jsonl"):
        records = [record for _, record in read_file(file)]
        yield from plans_of(_example, records, [SPLIT_OF.get(file.stem, "train")] * len(records))


def _example(record: dict[str, Any], split: Any) -> TrainingExample:
    written = HandwrittenInstruction.model_validate(record)
    return TrainingExample(
        instruction=written.instruction,
        workflow=written.workflow(),
        task_id=written.id,
        suite=NAME,
        licence="Apache-2.0",
        split=split,
    )
