"""From a subtask to what its worker is asked, and how its answer is checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from orchestai.execution.signature import step_signature
from orchestai.tasks.examples import Example, parse_calls, parse_examples
from orchestai.tasks.task import Task
from orchestai.workers.base import Request
from orchestai.workflow import Subtask, Workflow


def build_request(
    task: Task,
    workflow: Workflow,
    subtask: Subtask,
    *,
    kind: Literal["dataflow", "sink"],
    inputs: Mapping[str, str] | None = None,
    sample: int = 0,
) -> Request:
    """What the worker of `subtask` is asked.

    `dataflow`: for a function, with the examples that the subtask's words show; the only subtask of a workflow is asked
    for the task's entry point, with its program head and its example calls. `sink`: for a text, given its parents'.

    Args:
        inputs: outputs of the parents by id, for `sink`.
        sample: index of this repetition.
    """
    if kind == "sink":
        return Request(
            instruction=subtask.instruction,
            task_type=subtask.task_type,
            role=subtask.role,
            inputs=inputs or {},
            sample=sample,
        )
    whole = len(workflow) == 1
    examples = visible_examples(task, workflow, subtask)
    return Request(
        instruction=subtask.instruction,
        signature=step_signature(task, workflow, subtask, examples),
        examples=examples,
        task_type=subtask.task_type,
        role=subtask.role,
        sample=sample,
        head=task.complete_prompt if whole else "",
    )


def visible_examples(task: Task, workflow: Workflow, subtask: Subtask) -> tuple[Example, ...]:
    """What the subtask's own words show; for a whole task its example calls, since its other examples are of steps."""
    calls = parse_calls(subtask.instruction, task.entry_point) if len(workflow) == 1 else ()
    return calls or parse_examples(subtask.instruction)
