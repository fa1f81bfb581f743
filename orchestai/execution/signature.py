"""Which function a subtask is asked to write, and how the task's entry point is called."""

from __future__ import annotations

import ast
import string
from dataclasses import dataclass

from orchestai.tasks.task import Task
from orchestai.tasks.visible_examples import Example
from orchestai.text.syntax import parse_python
from orchestai.workers.base import Signature
from orchestai.workflow import Subtask, Workflow

STEP = "step"
"""Name of the function that each subtask of a composed program defines."""


@dataclass(frozen=True)
class EntryPoint:
    """The function that the hidden tests call.

    Attributes:
        arguments: source of its parameter list, defaults included.
        parameters: names of the parameters; empty where nobody says them (`arguments` is then `*args`).
        preamble: source of what stands before the function in the task's own head (imports, constants, helpers).
    """

    arguments: str
    parameters: tuple[str, ...]
    preamble: str = ""

    @property
    def values(self) -> tuple[str, ...]:
        """What a root of the workflow gets as arguments."""
        return self.parameters or ("*args",)


def entry_point(task: Task) -> EntryPoint:
    """Read the entry point from the task's program head, else from its list of parameters."""
    for head in (task.complete_prompt, task.code_prompt):
        found = _from_head(head, task.entry_point)
        if found:
            return found
    return EntryPoint(", ".join(task.parameters) or "*args", task.parameters)


def _from_head(head: str, name: str) -> EntryPoint | None:
    try:
        body = parse_python(head).body
    except SyntaxError:
        return None
    for i, statement in enumerate(body):
        if isinstance(statement, ast.FunctionDef) and statement.name == name:
            arguments = statement.args
            for argument in ast.walk(arguments):
                if isinstance(argument, ast.arg):
                    argument.annotation = None
            named = (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)
            preamble = "\n".join(ast.unparse(before) for before in body[:i])
            return EntryPoint(ast.unparse(arguments), tuple(argument.arg for argument in named), preamble)
    return None


def step_signature(task: Task, workflow: Workflow, subtask: Subtask, examples: tuple[Example, ...]) -> Signature:
    """The function that a subtask's worker must define.

    The only subtask of a workflow is the whole task: it defines the entry point. Otherwise the subtask's own example
    says how many arguments there are, so that a worker's prompt depends on the subtask's words alone; without an
    example they are the task's parameters (a root) or one per parent.
    """
    if len(workflow) == 1:
        return Signature(task.entry_point, entry_point(task).values)
    if examples:
        return Signature(STEP, _names(len(examples[0].args)))
    if not subtask.depends_on:
        return Signature(STEP, entry_point(task).values)
    return Signature(STEP, _names(len(subtask.depends_on)))


def _names(count: int) -> tuple[str, ...]:
    return ("x",) if count == 1 else tuple(string.ascii_lowercase[:count])
