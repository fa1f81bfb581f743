"""From the subtasks' outputs to the final answer."""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Literal

from orchestai.execution.merged_source import Piece, merge
from orchestai.execution.signature import STEP, entry_point
from orchestai.sandbox.fences import unfenced
from orchestai.tasks.task import Task
from orchestai.text.syntax import parse_python
from orchestai.workflow import Subtask, Workflow

_ALIAS = re.compile(rf"(.*\n)\s*{STEP} = (\w+)\s*", re.DOTALL)
"""A source whose function is called otherwise, as `workers.prompting.source.named` leaves it."""


def assemble(task: Task, workflow: Workflow, outputs: Mapping[str, str], kind: Literal["dataflow", "sink"]) -> str:
    """The final answer: a program, or where the task wants a text, whatever `kind`, the text of the last sink.

    `sink`: the answer of the last sink, below the task's imports and signature if the suite gives them, so that an
    import that the answer leaves out is there (BigCodeBench calls such scores calibrated). `dataflow`: a program that
    defines `task.entry_point`, in which each subtask is a function and each edge an argument: roots get the task's
    parameters, the others their parents' values in the order of `depends_on`, and whatever of the task's parameters
    their functions require by name after these; the value of the last sink is returned. Subtasks that the last sink
    does not need are left out.
    The only subtask of a workflow answers for the whole task: its source is the program.

    Args:
        outputs: output of each subtask by id; a missing or broken one fails when the program calls it.
    """
    last = workflow.answering()
    answer = outputs.get(last, "")
    if not task.wants_program:
        return answer
    if kind == "sink" and task.code_prompt and answer:
        return f"{task.code_prompt.rstrip()}\n    pass\n\n\n{unfenced(answer)}"
    if kind == "sink" or len(workflow) == 1:
        return answer
    return _compose(task, workflow, outputs, last)


def assemble_part(task: Task, workflow: Workflow, outputs: Mapping[str, str], kind: Literal["dataflow", "sink"]) -> str:
    """The answer that those subtasks give which have outputs: that of the last of them; empty without any."""
    done = [subtask.id for subtask in workflow.order() if subtask.id in outputs]
    if not done:
        return ""
    if hands_on_texts(task, kind) or len(workflow) == 1:
        return outputs[done[-1]]
    return _compose(task, workflow, outputs, done[-1])


def hands_on_texts(task: Task, kind: Literal["dataflow", "sink"]) -> bool:
    """Whether workers read what the steps before theirs gave, instead of writing functions that are called with it."""
    return kind == "sink" or not task.wants_program


def _compose(task: Task, workflow: Workflow, outputs: Mapping[str, str], last: str) -> str:
    entry = entry_point(task)
    needed = workflow.needed_for(last)
    number = {subtask.id: i for i, subtask in enumerate(workflow.subtasks, start=1)}
    steps = [subtask for subtask in workflow.order() if subtask.id in needed]
    arguments = {
        subtask.id: _arguments(subtask, number, entry.values, outputs.get(subtask.id, "")) for subtask in steps
    }
    uses = Counter(value for values in arguments.values() for value in values.values())
    shared = any(count > 1 for count in uses.values())

    values = [f"value_{number[step.id]}" for step in steps]
    head = "\n".join(filter(None, [entry.preamble, "from copy import deepcopy" if shared else ""]))
    reserved = {task.entry_point, *values, *re.findall(r"\w+", entry.arguments)}
    pieces = [_piece(step, outputs.get(step.id, ""), number[step.id]) for step in steps]
    program, functions = merge(head, pieces, reserved)
    calls = []
    for step, function in zip(steps, functions, strict=True):
        given = ", ".join(
            f"{name}=" * isinstance(name, str) + (_own(value) if uses[value] > 1 else value)
            for name, value in arguments[step.id].items()
        )
        calls.append(f"{function}({given})")
    lines = [f"{value} = {call}" for value, call in zip(values[:-1], calls, strict=False)]
    body = "\n    ".join([*lines, f"return {calls[-1]}"])
    return f"{program}\n\n\ndef {task.entry_point}({entry.arguments}):\n    {body}\n"


def _piece(step: Subtask, source: str, number: int) -> Piece:
    """A step's source, whose function keeps the name that the worker has given it."""
    title = " ".join(step.instruction.split())
    if (alias := _ALIAS.fullmatch(source)) and not re.search(rf"\b{STEP}\b", alias[1]):
        return Piece(alias[1], alias[2], alias[2], title)
    return Piece(source, STEP, f"{STEP}_{number}", title)


def _arguments(subtask: Subtask, number: Mapping[str, int], given: Sequence[str], source: str) -> dict[int | str, str]:
    """What a step is called with, by the place or the name of its parameter."""
    if not subtask.depends_on:
        return dict(enumerate(given))
    values = [f"value_{number[parent]}" for parent in subtask.depends_on]
    required = _required(source)
    more = len(required) - len(values)
    named = [name for name in required if name in given][-more:] if more > 0 else []
    if len(named) < max(more, 1):
        return dict(enumerate(values))
    others = [name for name in required if name not in named]
    return {**dict(zip(others, values, strict=True)), **{name: name for name in named}}


def _required(source: str) -> list[str]:
    """Names of the parameters without a default of the function `step` in a worker's source, if there is one."""
    try:
        body = parse_python(source).body
    except (SyntaxError, ValueError, MemoryError, RecursionError):
        return []
    for node in reversed(body):
        if isinstance(node, ast.FunctionDef) and node.name == STEP and not node.args.posonlyargs:
            arguments = node.args
            plain = arguments.args[: len(arguments.args) - len(arguments.defaults)]
            only = [
                each for each, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True) if not default
            ]
            return [each.arg for each in (*plain, *only)]
    return []


def _own(value: str) -> str:
    """A copy for each of several readers, so that a step that changes its argument does not change another's."""
    return f"*deepcopy({value[1:]})" if value.startswith("*") else f"deepcopy({value})"
