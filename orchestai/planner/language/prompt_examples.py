"""Worked examples for prompts: built-in ones for any pool, or the user's own from a file."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from orchestai.config import PlannerConfig
from orchestai.errors import UserError
from orchestai.workers.base import WorkerCard
from orchestai.workflow import Subtask, Workflow, WorkflowError

Steps = tuple[tuple[str, tuple[str, ...]], ...]
"""The words of each step, and the ids (from 1) of the steps that it needs."""

TASK = (
    "Write a function `task_func(text)`. First, reverse it (`'ab'` -> `'ba'`). Separately, starting again from the "
    "input, count its letters (`'to be'` -> `4`). Finally, with both, repeat the first as often as the second says "
    "(`'a', 2` -> `'aa'`)."
)
STEPS: Steps = (
    ("reverse it (`'ab'` -> `'ba'`)", ()),
    ("count its letters (`'to be'` -> `4`)", ()),
    ("repeat the first as often as the second says (`'a', 2` -> `'aa'`)", ("1", "2")),
)
_BUILT_IN: tuple[tuple[str, Steps], ...] = (
    (TASK, STEPS),
    (
        "Implement `task_func(numbers)`: to begin with, keep its even numbers (`[1, 2, 4]` -> `[2, 4]`); then, add "
        "them up (`[2, 4]` -> `6`).",
        (
            ("keep its even numbers (`[1, 2, 4]` -> `[2, 4]`)", ()),
            ("add them up (`[2, 4]` -> `6`)", ("1",)),
        ),
    ),
)


@dataclass(frozen=True)
class Worked:
    """An instruction and a good plan for it."""

    instruction: str
    workflow: Workflow


def worked_examples(config: PlannerConfig, cards: Sequence[WorkerCard]) -> list[Worked]:
    """The examples that `planner.language.few_shot` asks for."""
    wanted = config.language.few_shot
    if isinstance(wanted, Path):
        try:
            entries = json.loads(wanted.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise UserError(f"planner.language.few_shot: {wanted}: not readable as JSON: {error}") from None
        if not isinstance(entries, list):
            raise UserError(f"planner.language.few_shot: {wanted}: a list of examples is wanted")
        return [
            _entry(entry, f"planner.language.few_shot: {wanted}: example {i}", config, cards)
            for i, entry in enumerate(entries)
        ]
    if not 0 <= wanted <= len(_BUILT_IN):
        raise UserError(
            f"planner.language.few_shot: {wanted}, but {len(_BUILT_IN)} examples are built in; give a smaller number, "
            "or a file of your own examples"
        )
    types = config.task_types
    # Types and workers in turn: what is shown is the form, not the choice.
    return [
        Worked(
            instruction,
            Workflow(
                [
                    Subtask(
                        id=str(i + 1),
                        instruction=words,
                        task_type=types[-1] if len(parents) > 1 else types[0],
                        worker=cards[i % len(cards)].name,
                        depends_on=parents,
                        span=(start := instruction.index(words), start + len(words)),
                    )
                    for i, (words, parents) in enumerate(steps)
                ]
            ),
        )
        for instruction, steps in _BUILT_IN[:wanted]
    ]


def _entry(entry: object, where: str, config: PlannerConfig, cards: Sequence[WorkerCard]) -> Worked:
    if not isinstance(entry, dict) or not isinstance(entry.get("instruction"), str) or "subtasks" not in entry:
        raise UserError(f'{where}: write it as {{"instruction": "...", "subtasks": [...]}}')
    try:
        workflow = Workflow(subtasks=entry["subtasks"])
    except (WorkflowError, TypeError) as error:
        raise UserError(f"{where}: {error}") from None
    in_turn = {
        subtask.id: {"worker": cards[i % len(cards)].name}
        for i, subtask in enumerate(workflow.subtasks)
        if not subtask.worker
    }
    workflow = workflow.replace(in_turn)
    known = {card.name for card in cards}
    for subtask in workflow.subtasks:
        unknown = [name for name in subtask.workers if name not in known]
        if unknown or subtask.task_type not in config.task_types:
            wrong = f"worker {unknown[0]!r}" if unknown else f"task type {subtask.task_type!r}"
            raise UserError(f"{where}: subtask {subtask.id!r} has an unknown {wrong}")
    return Worked(entry["instruction"], workflow)
