"""One instruction of a hand: its words, its steps at their places in them, and, of some, functions and tests."""

from __future__ import annotations

import ast

from pydantic import BaseModel, ConfigDict, Field, model_validator

from orchestai.text.syntax import parse_python
from orchestai.workflow import Subtask, Workflow

OTHER = "other"
"""The type of steps that are no operation on data; planners without such a type leave theirs open."""
IMPORTS = "import calendar, collections, datetime, functools, itertools, json, math, re, statistics, string, textwrap"
"""What the functions of steps may use."""


class HandwrittenStep(BaseModel):
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


class HandwrittenInstruction(BaseModel):
    """One line of a hand's file.

    Attributes:
        id: `HAND/NUMBER`.
        style: in a word, as the author named it.
        steps: in the order of the data, not of the text; those with words of their own do not overlap.
        parameters: of the function that is asked for; empty where no program is.
        tests: Python expressions `task_func(...) == ...`.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    id: str
    style: str
    instruction: str
    steps: tuple[HandwrittenStep, ...] = Field(min_length=1)
    parameters: tuple[str, ...] = ()
    tests: tuple[str, ...] = ()

    @model_validator(mode="after")
    def _in_order(self) -> HandwrittenInstruction:
        for number, step in enumerate(self.steps, start=1):
            if late := [parent for parent in step.parents if not 1 <= parent < number]:
                raise ValueError(f"{self.id}: step {number} takes step {late[0]}, which is not before it")
            if not 0 <= step.span[0] < step.span[1] <= len(self.instruction):
                raise ValueError(f"{self.id}: step {number} has words outside of the instruction")
        return self

    @property
    def has_program(self) -> bool:
        return bool(self.tests)

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
