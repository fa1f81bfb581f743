"""Training examples as a language model learns them: prompt, completion, and what each token of it teaches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from orchestai.data.training_file import TrainingExample
from orchestai.planner.language.plan_text import PlanText, write_plan
from orchestai.planner.language.planner import LanguagePlanner
from orchestai.planner.language.prompt import PromptTooLongError
from orchestai.training.supervised.dag_loss import token_at
from orchestai.workflow import Subtask, Workflow


class UnteachableError(ValueError):
    """The example cannot be learned from; the message says why."""


@dataclass(frozen=True)
class ParentSlot:
    """A token of a completion that names a parent.

    Attributes:
        token: its index.
        step: index of the step that depends, from 0.
        further: whether another parent stands before it.
    """

    token: int
    step: int
    further: bool


@dataclass(frozen=True, eq=False)
class PlanLesson:
    """One example in tokens.

    Attributes:
        prompt: (tokens,) int64.
        completion: (tokens,) int64; ends with the end-of-sequence token.
        learned: (completion tokens,) bool; False where the example leaves the choice open.
        parents: the tokens that the DAG-validity term is about.
        workflow: the plan.
    """

    prompt: Tensor
    completion: Tensor
    learned: Tensor
    parents: tuple[ParentSlot, ...]
    workflow: Workflow

    def __len__(self) -> int:
        return len(self.prompt) + len(self.completion)


def make_lesson(example: TrainingExample, planner: LanguagePlanner) -> PlanLesson:
    """The example for this planner. An execution that failed teaches how to decompose, but not whom to ask.

    Raises:
        UnteachableError: the prompt or the plan is too long, or a subtask has no words.
    """
    workflow = workflow_of(example, planner)
    plan = write_plan(workflow, example.instruction, planner.config.language.quote)
    encoded = planner.tokenizer(plan.text, add_special_tokens=False, return_offsets_mapping=True)
    ids, offsets = encoded["input_ids"], encoded["offset_mapping"]
    try:
        prompt = planner.prompts.write(example.instruction)
    except PromptTooLongError as error:
        raise UnteachableError(str(error)) from None
    if len(ids) + 1 > planner.max_slots:
        raise UnteachableError(
            f"a plan of {len(ids) + 1} tokens, but planner.language.max_new_tokens is {planner.max_slots}"
        )
    hidden = _open_values(plan, example)
    learned = [not any(start < b and a < end for a, b in hidden) for start, end in offsets]
    end_id = planner.tokenizer.eos_token_id
    return PlanLesson(
        prompt=prompt,
        completion=torch.tensor([*ids, end_id], dtype=torch.long),
        learned=torch.tensor([*learned, True]),
        parents=tuple(_parents(plan, offsets)),
        workflow=workflow,
    )


def workflow_of(example: TrainingExample, planner: LanguagePlanner) -> Workflow:
    """The plan of an example; unnamed types and workers are the first, fallbacks beyond `max_fallbacks` are left out.

    Where a step is listed before one that it needs, the steps are put into an order in which they can be done.

    Raises:
        UnteachableError: a subtask has no words.
    """
    targets, config = example.targets, planner.config
    subtasks = []
    for i, span in enumerate(targets.spans):
        words = targets.instructions[i] or (example.instruction[slice(*span)] if span is not None else "")
        if not words:
            raise UnteachableError(f"subtask {i + 1} has no words")
        subtask = Subtask(
            id=str(i + 1),
            instruction=words,
            depends_on=tuple(str(parent + 1) for parent in targets.dependencies[i]),
            span=span,
        )
        if config.language.assign:
            choice = {
                "task_type": config.task_types[targets.task_types[i] or 0],
                "worker": planner.cards[targets.model_selections[i] or 0].name,
                "fallback": tuple(planner.cards[w].name for w in targets.fallback[i][: config.max_fallbacks]),
            }
            subtask = subtask.model_copy(update=choice)
        subtasks.append(subtask)
    workflow = Workflow(subtasks)
    listed = all(parent < child for child, parents in enumerate(targets.dependencies) for parent in parents)
    return workflow if listed else Workflow(workflow.order())


def _open_values(plan: PlanText, example: TrainingExample) -> list[tuple[int, int]]:
    """[start, end) of the values that the example does not vouch for."""
    return [
        (mark.start, mark.end)
        for mark in plan.marks
        if (mark.field in ("worker", "fallback") and not example.solved)
        or (mark.field == "task_type" and example.targets.task_types[mark.step] is None)
    ]


def _parents(plan: PlanText, offsets: Sequence[tuple[int, int]]) -> list[ParentSlot]:
    found: list[ParentSlot] = []
    for mark in plan.marks:
        if mark.field == "depends_on":
            further = bool(found) and found[-1].step == mark.step
            found.append(ParentSlot(token_at(offsets, mark.start), mark.step, further))
    return found
