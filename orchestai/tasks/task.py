"""A task: an instruction, and how its answer is judged. Holds BigCodeBench's fields under their own names."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field, PrivateAttr

from orchestai.tasks.dialogue import Dialogue
from orchestai.workflow import Workflow

UNIT_TESTS: Final = "unit_tests"
EXACT: Final = "exact"
"""The scorers of tasks that name none."""

REFERENCE_OUTPUTS: Final = "reference_outputs"
"""The key of `Task.details` under which a suite says what each step of the reference decomposition gives, by its id."""


@dataclass(frozen=True)
class Place:
    """The file and line that a task was read from, for messages; it plays no part in comparisons."""

    text: str = field(default="", compare=False)


class Task(BaseModel):
    """One task of a suite.

    Attributes:
        task_id: unique within the suite, e.g. `HumanEval/0`.
        suite: name of the suite.
        split: `train`, `validation`, `test` or a suite's own (the composition suite also has `longer`).
        instruct_prompt: the instruction in natural language, with its visible examples; what planners read.
        complete_prompt: head of the program to complete (signature and docstring), if the suite has one.
        code_prompt: imports and signature alone, if the suite has them.
        canonical_solution: a reference program (the whole program for composition, else as the suite gives it).
        test: hidden tests: source of `unittest.TestCase` classes; `entry_point` is in their globals. Empty where
            answers are judged otherwise.
        answers: reference answers, any of which is right (questions, maths); empty where tests judge.
        scorer: name of what judges an answer (see `orchestai.rewards.scorers`); empty: the tests, else an exact match
            with one of the answers.
        details: what only the suite's own reward and workflow read (a repository, supporting titles, ...); JSON values.
        entry_point: name of the function that the tests call.
        libs: third-party libraries that solution and tests import.
        doc_struct: BigCodeBench's parsed docstring.
        parameters: names of the entry point's parameters.
        isolation: whether tests run in a process of their own, which exchanges copies with the candidate's (`sealed`),
            or in the candidate's (`open`); `auto`: sealed if the reference program passes all tests so, else open;
            where there is no reference, what the source of the tests shows.
        reference: the reference decomposition, without workers; None where nobody knows one.
        source: where the task comes from, with license.
        dialogue: the conversation in which the instruction was said, if it was.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    task_id: str
    suite: str
    split: str = "test"
    instruct_prompt: str
    complete_prompt: str = ""
    code_prompt: str = ""
    canonical_solution: str = ""
    test: str = ""
    answers: tuple[str, ...] = ()
    scorer: str = Field("", exclude_if=lambda name: not name)
    details: dict[str, Any] = {}
    entry_point: str = "task_func"
    libs: tuple[str, ...] = ()
    doc_struct: dict[str, Any] | None = None
    parameters: tuple[str, ...] = ()
    isolation: Literal["sealed", "open", "auto"] = "auto"
    reference: Workflow | None = None
    source: str = ""
    dialogue: Dialogue | None = Field(None, exclude_if=lambda dialogue: dialogue is None)
    _place: Place = PrivateAttr(default_factory=Place)

    @property
    def place(self) -> str:
        """Where the task was read from, else its id: what a message begins with."""
        return self._place.text or self.task_id

    def at(self, place: str) -> Task:
        """The task, which remembers where it was read from."""
        task = self.model_copy()
        task._place = Place(place)
        return task

    @property
    def scorer_name(self) -> str:
        """The scorer, or the one that stands in for it; empty where nothing can judge an answer."""
        return self.scorer or (UNIT_TESTS if self.test else EXACT if self.answers else "")

    @property
    def wants_program(self) -> bool:
        """Whether the answer is a program, which has tests or a head, and not a text."""
        return self.scorer == UNIT_TESTS or bool(self.test or self.complete_prompt or self.code_prompt)

    @property
    def canonical_program(self) -> str:
        """The whole reference program; empty if the suite has none."""
        return self.complete_prompt + self.canonical_solution if self.canonical_solution else ""

    @property
    def instruction(self) -> str:
        """The instruction that planners and workers read."""
        return self.instruct_prompt
