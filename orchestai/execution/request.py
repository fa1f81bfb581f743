"""From a subtask to what its worker is asked, and how its answer is checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

from orchestai.execution.assembler import entry_point, hands_on_texts, step_signature
from orchestai.rewards.scorers import answer_format
from orchestai.tasks.dialogue import Dialogue
from orchestai.tasks.task import Task
from orchestai.tasks.visible_examples import Example, parse_calls, parse_examples
from orchestai.workers.base import Request, Signature
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
    for the task's entry point, with its program head and its example calls. `sink`: for a text, given the task and its
    parents' texts; the last subtask, whose answer is the task's, for the program, with the task's example calls.
    A task that wants a text is always asked so, and its last subtask is told the form of the answer where answers are
    there to compare it with; who asks a question of their own says that themselves.

    Args:
        inputs: outputs of the parents by id, where texts are handed on.
        sample: index of this repetition.
    """
    if hands_on_texts(task, kind):
        last = subtask.id == workflow.answering()
        program = last and task.wants_program
        return Request(
            instruction=subtask.instruction,
            signature=Signature(task.entry_point, entry_point(task).values) if program else None,
            examples=parse_calls(task.instruction, task.entry_point) if program else (),
            task_type=subtask.task_type,
            role=subtask.role,
            task=task.instruction,
            inputs={**(task.dialogue.inputs if task.dialogue else {}), **(inputs or {})},
            sample=sample,
            head=(task.code_prompt or task.complete_prompt) if program else "",
            answer_format=answer_format(task) if last and task.answers else "",
            dialogue=_dialogue(task, workflow, subtask),
        )
    whole = len(workflow) == 1
    examples = visible_examples(task, workflow, subtask)
    signature = step_signature(task, workflow, subtask, examples)
    return Request(
        instruction=subtask.instruction,
        signature=signature,
        examples=examples,
        task_type=subtask.task_type,
        role=subtask.role,
        sample=sample,
        head=task.complete_prompt if whole else "",
        dialogue=_dialogue(task, workflow, subtask),
    )


def _dialogue(task: Task, workflow: Workflow, subtask: Subtask) -> Dialogue | None:
    if task.dialogue is None or subtask.id == workflow.answering():
        return task.dialogue
    return task.dialogue.of_step()


def visible_examples(task: Task, workflow: Workflow, subtask: Subtask) -> tuple[Example, ...]:
    """What the subtask's own words show; for a whole task its example calls, since its other examples are of steps.

    The only subtask answers for the task, so where its words show nothing, the calls that stand beside them count.
    """
    if len(workflow) > 1:
        return parse_examples(subtask.instruction)
    calls = parse_calls(subtask.instruction, task.entry_point)
    return calls or parse_examples(subtask.instruction) or parse_calls(task.instruction, task.entry_point)
