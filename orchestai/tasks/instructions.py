"""Synthetic instructions with the words of their steps; those that have a program and tests form a suite.

A language model wrote them for this project under one style brief per file (data/README.md).
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, model_validator

from orchestai.installed import shipped
from orchestai.tasks.records import read_file, to_tasks
from orchestai.tasks.suite import Suite
from orchestai.tasks.task import Task
from orchestai.text.syntax import parse_python
from orchestai.workflow import Subtask, Workflow

NAME = "instructions"
STYLES: dict[str, tuple[str, ...]] = {
    split: tuple(f"style-{number:02}" for number in numbers)
    for split, numbers in {"train": range(1, 32), "validation": range(32, 36), "test": range(36, 40)}.items()
}
"""The style briefs of each split. A split by style measures wording of a style that nothing was learned from."""
SPLIT_OF: dict[str, str] = {style: split for split, styles in STYLES.items() for style in styles}
OTHER = "other"
"""The type of steps that are no operation on data; planners without such a type leave theirs open."""
IMPORTS = "import calendar, collections, datetime, functools, itertools, json, math, re, statistics, string, textwrap"
"""What the functions of steps may use."""


class SyntheticStep(BaseModel):
    """One step.

    Attributes:
        op: name of the operation.
        type: of what the step works on.
        span: [start, end) character offsets of its words in the instruction.
        inputs: what it works on: numbers of earlier steps, from 1, and names of parameters or of other given things.
        do: a Python lambda over the inputs, in their order; empty where there is no program.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    op: str
    type: str
    span: tuple[int, int]
    inputs: tuple[int | str, ...]
    do: str = ""

    @property
    def parents(self) -> tuple[int, ...]:
        return tuple(value for value in self.inputs if isinstance(value, int))


class SyntheticInstruction(BaseModel):
    """One line of a style's file.

    Attributes:
        id: `style-NN/LINE`.
        style: the form of this instruction in a word or two, as the model named it: `terse`, `ticket`, `letter`.
        steps: in the order of the data, not of the text; those with words of their own do not overlap.
        parameters: of the function that is asked for; empty where no program is.
        tests: Python expressions `task_func(...) == ...`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    style: str
    instruction: str
    steps: tuple[SyntheticStep, ...] = Field(min_length=1)
    parameters: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _in_order(self) -> SyntheticInstruction:
        for number, step in enumerate(self.steps, start=1):
            if late := [parent for parent in step.parents if not 1 <= parent < number]:
                raise ValueError(f"{self.id}: step {number} takes step {late[0]}, which is not before it")
            if not 0 <= step.span[0] < step.span[1] <= len(self.instruction):
                raise ValueError(f"{self.id}: step {number} has words outside of the instruction")
        return self

    def workflow(self) -> Workflow:
        """The decomposition, without workers; parents stand in the order of the inputs."""
        return Workflow(
            [
                Subtask(
                    id=str(number),
                    instruction=self.instruction[slice(*step.span)],
                    task_type="" if step.type == OTHER else step.type,
                    depends_on=tuple(dict.fromkeys(map(str, step.parents))),
                    span=step.span,
                )
                for number, step in enumerate(self.steps, start=1)
            ]
        )

    def program(self) -> str:
        """Source of `task_func`, composed of the steps' functions."""
        lines = [IMPORTS, *(f"step_{number} = {step.do}" for number, step in enumerate(self.steps, start=1))]
        lines.append(f"\n\ndef task_func({', '.join(self.parameters)}):")
        for number, step in enumerate(self.steps, start=1):
            given = ", ".join(f"value_{value}" if isinstance(value, int) else value for value in step.inputs)
            lines.append(f"    value_{number} = step_{number}({given})")
        return "\n".join([*lines, f"    return value_{len(self.steps)}", ""])

    def unit_tests(self) -> str:
        """The tests as a `unittest.TestCase`."""
        lines = [IMPORTS, "import unittest", "\n\nclass TestCases(unittest.TestCase):"]
        for number, test in enumerate(self.tests, start=1):
            equal = parse_python(test, "eval").body
            assert isinstance(equal, ast.Compare)
            call, expected = ast.unparse(equal.left), ast.unparse(equal.comparators[0])
            lines += [f"    def test_{number}(self):", f"        self.assertEqual({call}, {expected})", ""]
        return "\n".join(lines)


def folder() -> Path:
    """Return the folder of the styles' files."""
    return shipped(Path("data") / NAME)


def read_style(path: Path) -> Iterator[SyntheticInstruction]:
    """Read a style's file.

    Raises:
        UserError: the file cannot be read.
        ValueError: a line is no instruction with steps.
    """
    for _, record in read_file(path):
        yield SyntheticInstruction.model_validate(record)


def held_out_instructions() -> Iterator[SyntheticInstruction]:
    """Yield the shipped instructions of the validation styles, one of each style in turn."""
    for instructions in zip(*(read_style(folder() / f"{style}.jsonl") for style in STYLES["validation"]), strict=False):
        yield from instructions


def load(path: str | None = None) -> Suite:
    """Load the styles' files that ship, or those in another folder."""
    directory = folder() if path is None else Path(path)
    return Suite(NAME, {split: partial(_split, directory, split) for split in STYLES})


def _split(directory: Path, split: str) -> list[Task]:
    records = [
        (where, {**record, "split": split})
        for style in STYLES[split]
        for where, record in read_file(directory / f"{style}.jsonl")
        if record.get("tests")
    ]
    return to_tasks(records, _task)


def _task(record: dict[str, Any]) -> Task:
    split = record.pop("split")
    instruction = SyntheticInstruction.model_validate(record)
    return Task(
        task_id=instruction.id,
        suite=NAME,
        split=split,
        instruct_prompt=instruction.instruction,
        canonical_solution=instruction.program(),
        test=instruction.unit_tests(),
        parameters=instruction.parameters,
        details={"style": instruction.style},
        reference=instruction.workflow(),
        source="synthetic, written for this project by a language model; Apache-2.0",
    )
