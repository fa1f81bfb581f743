"""Training examples as a language model learns them: prompt, completion, and which tokens are learned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from orchestai.data.training_file import TrainingExample
from orchestai.planner.language.plan_memory import KnownPlan
from orchestai.planner.language.plan_text import PlanText, without_workers, write_plan
from orchestai.planner.language.planner import LanguagePlanner
from orchestai.planner.language.prompt import PromptTooLongError
from orchestai.training.supervised.dag_loss import token_at
from orchestai.workflow import Workflow


class UnusableExampleError(ValueError):
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
class TokenizedExample:
    """One example in tokens.

    Attributes:
        example: as it is in the training file.
        prompt: (tokens,) int64.
        completion: (tokens,) int64; ends with the end-of-sequence token.
        learned: (completion tokens,) bool; False where the example leaves the choice open.
        parents: the tokens that the DAG-validity term is about.
        workflow: the plan, as `workflow_of` gives it.
    """

    example: TrainingExample
    prompt: Tensor
    completion: Tensor
    learned: Tensor
    parents: tuple[ParentSlot, ...]
    workflow: Workflow

    def __len__(self) -> int:
        return len(self.prompt) + len(self.completion)


def tokenize(example: TrainingExample, planner: LanguagePlanner) -> TokenizedExample:
    """The example for this planner. An execution that failed teaches how to decompose, but not whom to ask.

    Raises:
        UnusableExampleError: the prompt or the plan is too long, or a subtask has no words.
    """
    plan, wanted = _written(example, planner)
    encoded = planner.tokenizer(plan.text, add_special_tokens=False, return_offsets_mapping=True)
    ids, offsets = encoded["input_ids"], encoded["offset_mapping"]
    try:
        prompt = planner.prompts.write(example.instruction, origin=_origin(example))
    except PromptTooLongError as error:
        raise UnusableExampleError(str(error)) from None
    if len(ids) + 1 > planner.max_slots:
        raise UnusableExampleError(
            f"a plan of {len(ids) + 1} tokens, but planner.language.max_new_tokens is {planner.max_slots}"
        )
    hidden = _open_values(plan, wanted)
    learned = [not any(start < b and a < end for a, b in hidden) for start, end in offsets]
    end_id = planner.tokenizer.eos_token_id
    return TokenizedExample(
        example=example,
        prompt=prompt,
        completion=torch.tensor([*ids, end_id], dtype=torch.long),
        learned=torch.tensor([*learned, True]),
        parents=tuple(_parents(plan, offsets)),
        workflow=wanted,
    )


def known_plan(example: TrainingExample, planner: LanguagePlanner) -> KnownPlan | None:
    """The example as others may read it in their prompts; None where it leaves a choice open or was only reworded."""
    try:
        plan, wanted = _written(example, planner)
    except UnusableExampleError:
        return None
    return (
        None
        if example.augmented or _open_values(plan, wanted)
        else KnownPlan(example.instruction, plan.text, _origin(example))
    )


def _origin(example: TrainingExample) -> str:
    """What names the task that an example is of, or was reworded from."""
    return example.task_id or example.asked


def _written(example: TrainingExample, planner: LanguagePlanner) -> tuple[PlanText, Workflow]:
    """The text that is learned, and the plan that the example vouches for."""
    wanted = workflow_of(example, planner)
    logged = _completed(example.workflow, wanted, planner)
    return write_plan(logged, example.instruction, planner.config.language.quote), wanted


def workflow_of(example: TrainingExample, planner: LanguagePlanner) -> Workflow:
    """What an example vouches for, as this planner would write it: each step has words, if need be those of its span.

    Where a step is listed before one that it needs, the steps are put into an order in which they can be done.

    Raises:
        UnusableExampleError: a subtask has no words.
    """
    workflow = example.imitated if planner.config.language.assign else without_workers(example.workflow)
    words: dict[str, dict[str, Any]] = {}
    for number, subtask in enumerate(workflow.subtasks, start=1):
        known = subtask.instruction or (example.instruction[slice(*subtask.span)] if subtask.span is not None else "")
        if not known:
            raise UnusableExampleError(f"subtask {number} has no words")
        words[subtask.id] = {"instruction": known}
    workflow = workflow.replace(words)
    listed = all(parent < child for child, parents in enumerate(workflow.dependencies()) for parent in parents)
    return workflow if listed else Workflow(workflow.order())


def _completed(logged: Workflow, wanted: Workflow, planner: LanguagePlanner) -> Workflow:
    """`wanted` with the logged types and workers, the first where there is none, and no more than can be written."""
    config = planner.config
    if not config.language.assign:
        return wanted
    first, most = planner.cards[0].name, config.max_fallbacks
    return wanted.replace(
        {
            subtask.id: {
                "task_type": subtask.task_type or config.task_types[0],
                "worker": subtask.worker or first,
                "fallback": subtask.fallback[:most],
            }
            for subtask in logged.subtasks
        }
    )


def _open_values(plan: PlanText, wanted: Workflow) -> list[tuple[int, int]]:
    """[start, end) of the values that the example does not vouch for."""
    return [
        (mark.start, mark.end)
        for mark in plan.marks
        if (mark.field in ("worker", "fallback") and not wanted.subtasks[mark.step].worker)
        or (mark.field == "task_type" and not wanted.subtasks[mark.step].task_type)
    ]


def _parents(plan: PlanText, offsets: Sequence[tuple[int, int]]) -> list[ParentSlot]:
    found: list[ParentSlot] = []
    for mark in plan.marks:
        if mark.field == "depends_on":
            further = bool(found) and found[-1].step == mark.step
            found.append(ParentSlot(token_at(offsets, mark.start), mark.step, further))
    return found
