"""What somebody asks for in words, as a task."""

from __future__ import annotations

import uuid
from typing import Literal, TypeAlias

from orchestai.config import TasksConfig
from orchestai.errors import UserError
from orchestai.names import as_utf8
from orchestai.tasks.dialogue import Dialogue
from orchestai.tasks.suites import asks_for_programs
from orchestai.tasks.task import EXACT, UNIT_TESTS, Task

AnswerKind: TypeAlias = Literal["program", "text"]


def asked_task(
    instruction: str, answer: AnswerKind | None, settings: TasksConfig, dialogue: Dialogue | None = None
) -> Task:
    """A task of its own id.

    Args:
        answer: whether a program or a text is wanted; None is what is configured (`tasks.answer`).
        dialogue: the conversation in which it was said, if it was.

    Raises:
        UserError: the instruction is empty, or `answer` something else.
        TypeError: the instruction is no text.
    """
    if not isinstance(instruction, str):
        raise TypeError(f"the instruction is a text, not {type(instruction).__name__}")
    if not instruction.strip():
        raise UserError("the instruction is empty; say what is to be done")
    if answer not in (None, "program", "text"):
        raise UserError(f"answer={answer!r}: it is either program or text")
    program = asks_for_programs(settings) if answer is None else answer == "program"
    scorer = UNIT_TESTS if program else EXACT
    return Task(
        task_id=uuid.uuid4().hex[:12],
        suite="run",
        instruct_prompt=as_utf8(instruction),
        scorer=scorer,
        dialogue=dialogue,
    )
