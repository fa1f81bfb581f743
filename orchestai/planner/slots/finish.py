"""From what was decided to a plan: its words, its workers, and as many of its edges as a DAG can have."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orchestai.planner.base import Plan
from orchestai.planner.slots.decoding_rules import for_texts, with_whole_text
from orchestai.planner.slots.encoders.encoder import EncodedText
from orchestai.tasks.task import Task
from orchestai.tasks.visible_examples import clean
from orchestai.workflow import Subtask, Workflow


def finish_plan(
    text: EncodedText,
    spans: NDArray[np.int64],
    edges: NDArray[np.bool_],
    odds: NDArray[np.float32],
    types: Sequence[str],
    workers: Sequence[Sequence[str]],
) -> Plan:
    """The plan of an instruction.

    Args:
        spans: (n, 2) first and last token of each step.
        edges: (n, n) from row to column; those with the lowest (n, n) `odds` are dropped where there are cycles.
        types: of the n steps.
        workers: of each step, in the order in which they are asked; none at all in a plan without workers.
    """
    kept = repair(edges, odds)
    subtasks = []
    for i, (first, last) in enumerate(spans):
        span = int(text.offsets[first, 0]), int(text.offsets[last, 1])
        subtasks.append(
            Subtask(
                id=str(i + 1),
                instruction=clean(text.text[slice(*span)]),
                task_type=types[i],
                worker=workers[i][0] if workers[i] else "",
                depends_on=tuple(str(parent + 1) for parent in np.flatnonzero(kept[:, i]).tolist()),
                fallback=tuple(workers[i][1:]),
                span=span,
            )
        )
    workflow = Workflow(subtasks)
    is_sound = not workflow.repeats() and all(subtask.instruction for subtask in workflow.subtasks)
    return Plan(workflow=workflow, raw_valid=is_sound and is_acyclic(edges))


def by_the_rules(task: Task, plan: Plan) -> Plan:
    """The plan as its task is done: by texts that are handed on, or by functions of a program."""
    if plan.workflow is None:
        return plan
    workflow = plan.workflow if task.wants_program else for_texts(task.instruction, plan.workflow)
    return replace(plan, workflow=with_whole_text(task.instruction, workflow))


def step_words(instruction: str, offsets: NDArray[np.int64], span: Sequence[int]) -> str:
    """The words of a step without its examples, given the first and the last token of them, both inclusive."""
    first, last = span
    words = instruction[int(offsets[first, 0]) : int(offsets[last, 1])]
    return clean(words) or words


def rank_by_cards(steps: NDArray[np.float32], cards: NDArray[np.float32]) -> NDArray[np.int64]:
    """(steps, W) workers, nearest first, of (steps, d) and (W, d) unit vectors of the steps' and the cards' words."""
    return np.argsort(-(steps @ cards.T), axis=-1, kind="stable")


def is_acyclic(edges: NDArray[np.bool_]) -> bool:
    """Whether the directed graph with (n, n) adjacency `edges` has no cycle and no self-loop."""
    left = edges
    while len(left):
        without_parents = ~left.any(0)
        if not without_parents.any():
            return False
        left = left[~without_parents][:, ~without_parents]
    return True


def repair(edges: NDArray[np.bool_], priority: NDArray[np.floating[Any]]) -> NDArray[np.bool_]:
    """The (n, n) `edges` without those that close a cycle, taken greedily by falling `priority`.

    A graph without cycles is returned as it is. Equal priorities are taken in row order.
    """
    n = len(edges)
    kept = np.zeros_like(edges)
    reach = np.eye(n, dtype=bool)
    candidates = np.flatnonzero(edges)
    for index in candidates[np.argsort(-priority.flatten()[candidates], kind="stable")]:
        parent, child = divmod(int(index), n)
        if not reach[child, parent]:
            kept[parent, child] = True
            reach |= reach[:, parent, None] & reach[child]
    return kept
