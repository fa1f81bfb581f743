"""Where a step stands: the whole instruction with the step's words marked, and what each of its arguments is."""

from __future__ import annotations

from orchestai.tasks.task import Task
from orchestai.tasks.visible_examples import clean, parse_calls, parse_examples
from orchestai.text.syntax import parse_literal
from orchestai.workers.base import Signature
from orchestai.workflow import Subtask, Workflow

_OPEN, _CLOSE = "<step>", "</step>"


def step_context(task: Task, workflow: Workflow, subtask: Subtask, signature: Signature) -> str:
    """What a worker reads of the task beside the step's own words; empty where these are all of it.

    "Add all of them" means nothing without it. An argument is what a parent gives, in the parent's words, or a
    parameter of the task; its type and an example value are said where the instruction shows one.
    """
    if len(workflow) > 1:
        told = f"Between {_OPEN} and {_CLOSE} stands the step to write:\n\n{_marked(task.instruction, subtask)}"
    elif clean(subtask.instruction) != clean(task.instruction):
        told = f"What was asked for, word by word:\n\n{task.instruction}"
    else:
        return ""
    given, parents = _parameters(task), _parents(workflow, subtask)
    arguments = [f"- `{name}` is {what}" for name, what in zip(signature.parameters, parents or given, strict=False)]
    if parents:
        arguments += [
            f"- `{name}`, if you add it, is {what}" for name, what in zip(task.parameters, given, strict=True)
        ]
    return "\n".join([told, *(["", "Arguments:", *arguments] if arguments else [])])


def _marked(instruction: str, subtask: Subtask) -> str:
    if subtask.span is None:
        return f"{instruction}\n\n{_OPEN}{subtask.instruction}{_CLOSE}"
    start, end = subtask.span
    return f"{instruction[:start]}{_OPEN}{instruction[start:end]}{_CLOSE}{instruction[end:]}"


def _parents(workflow: Workflow, subtask: Subtask) -> list[str]:
    """What each parent gives, in the order in which their values are handed on."""
    found = []
    for parent in (workflow[id] for id in subtask.depends_on):
        shown = parse_examples(parent.instruction)
        found.append(f"the result of {parent.instruction!r}{_such_as(shown[0].result) if shown else ''}")
    return found


def _parameters(task: Task) -> list[str]:
    """What each parameter of the task is, as far as its example calls say."""
    calls = parse_calls(task.instruction, task.entry_point)
    values = calls[0].args if calls else ()
    return [
        f"`{name}` of the task{_such_as(values[i]) if i < len(values) else ''}"
        for i, name in enumerate(task.parameters)
    ]


def _such_as(literal: str) -> str:
    return f", {type(parse_literal(literal)).__name__} such as {literal}"
