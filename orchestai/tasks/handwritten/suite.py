"""The handwritten suite: instructions that have a program, split by the hands that wrote them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from orchestai.shipped import shipped
from orchestai.tasks.handwritten.instruction import HandwrittenInstruction
from orchestai.tasks.records import read_file, to_tasks
from orchestai.tasks.suite import Suite
from orchestai.tasks.task import Task

NAME = "handwritten"
HANDS: dict[str, tuple[str, ...]] = {
    "train": (
        *("edith", "henrik", "ines", "jules", "lena", "noor"),
        *("olu", "pavel", "ravi", "sam", "tomasz", "wei"),
        *("amara", "bruno", "dmitri", "greta", "hana", "ingrid", "kenji", "liam"),
        *("mei", "omar", "oskar", "sofia", "tyrone"),
        *("adaeze", "emil", "june", "leila", "rafael", "viktor"),
    ),
    "validation": ("mara", "nadia", "tom", "yuki"),
    "test": ("carmen", "fatima", "kofi", "pierre"),
}
"""Who wrote the splits. What counts is a hand that nothing was learned from."""
SPLIT_OF: dict[str, str] = {hand: split for split, hands in HANDS.items() for hand in hands}


def folder() -> Path:
    """Where the hands' files are."""
    return shipped(Path("data") / NAME)


def read_hand(path: Path) -> Iterator[tuple[str, HandwrittenInstruction]]:
    """The lines of a hand's file, each with its place.

    Raises:
        UserError: the file cannot be read.
        ValueError: a line is no instruction with steps.
    """
    for where, record in read_file(path):
        yield where, HandwrittenInstruction.model_validate(record)


def held_out_instructions() -> Iterator[HandwrittenInstruction]:
    """Those of the validation hands that ship, one of each in turn."""
    for lines in zip(*(read_hand(folder() / f"{hand}.jsonl") for hand in HANDS["validation"]), strict=False):
        yield from (written for _, written in lines)


def load(path: str | None = None) -> Suite:
    """The hands' files that ship, or those in another folder."""
    hands = folder() if path is None else Path(path)
    return Suite(NAME, {split: partial(_split, hands, split) for split in HANDS})


def _split(hands: Path, split: str) -> list[Task]:
    records = [
        (where, {**record, "split": split})
        for hand in HANDS[split]
        for where, record in read_file(hands / f"{hand}.jsonl")
        if record.get("tests")
    ]
    return to_tasks(records, _task)


def _task(record: dict[str, Any]) -> Task:
    split = record.pop("split")
    written = HandwrittenInstruction.model_validate(record)
    return Task(
        task_id=written.id,
        suite=NAME,
        split=split,
        instruct_prompt=written.instruction,
        canonical_solution=written.program(),
        test=written.unit_tests(),
        parameters=written.parameters,
        details={"style": written.style},
        reference=written.workflow(),
        source="written for this project by hand; Apache-2.0",
    )
