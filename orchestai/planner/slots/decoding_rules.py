"""What every plan of an instruction keeps to, whatever was learned: found by reading plans of text that people wrote.

Steps begin and end at the edges of words, and never inside a number, a quotation or code. A plan of one step is the
whole instruction. Where texts are wanted, a phrase that only modifies the step before it is no step of its own, and
every quotation and number stands in some step.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from orchestai.planner.base import Plan
from orchestai.planner.slots.text_encoder import EncodedText
from orchestai.tasks.task import Task
from orchestai.tasks.visible_examples import clean
from orchestai.workflow import Subtask, Workflow, WorkflowError

_WORD = re.compile(r"[^\s—…]+")
_OPENING = "([{<\"'“‘«„*•·-–"
_CLOSING = ".,;:!?)]}>\"'”’»*"
_LITERAL = re.compile(
    r"```.*?```|`[^`]+`|\"[^\"\n]+\"|“[^”]+”|„[^“”]+[“”]|«[^»]+»|(?<!\w)'[^'\n]+'(?!\w)|(?<!\w)‘[^’]+’(?!\w)", re.DOTALL
)
_NUMBER = re.compile(r"(?<![\w.,])[-+]?\d+(?:[.,:/·-]\d+)*%?(?![\w])")
_MODIFIER = re.compile(
    r"(?:\w+ing|sorted|ordered|grouped|separated|excluding|including|except|without|using|with|via|by|per|whose|which|that)\b",
    re.IGNORECASE,
)
_JOINED = re.compile(r"[,\s]*")


def word_edges(instruction: str, offsets: NDArray[np.int64]) -> NDArray[np.bool_]:
    """(t, 2) the tokens at which a step's words may begin, and may end.

    Args:
        offsets: (t, 2) [start, end) character offsets of the tokens.
    """
    starts: set[int] = set()
    ends: set[int] = set()
    for word in _WORD.finditer(instruction):
        text = word[0]
        lead = len(text) - len(text.lstrip(_OPENING))
        tail = len(text) - len(text.rstrip(_CLOSING))
        starts.update(range(word.start(), word.start() + lead + 1))
        ends.update(range(word.end() - tail, word.end() + 1))
    for literal in _LITERAL.finditer(instruction):
        starts.difference_update(range(literal.start() + 1, literal.end()))
        ends.difference_update(range(literal.start() + 1, literal.end()))
    places = offsets.tolist()
    edges = np.array([(start in starts, end in ends) for start, end in places], bool).reshape(-1, 2)
    edges[:1, 0] = edges[-1:, 1] = True
    return edges


def with_whole_text(instruction: str, workflow: Workflow) -> Workflow:
    """A plan of one step asks for the whole instruction; others stay as they are."""
    if len(workflow) > 1:
        return workflow
    [step] = workflow.subtasks
    return Workflow([step.model_copy(update={"instruction": instruction, "span": (0, len(instruction))})])


def for_texts(instruction: str, workflow: Workflow) -> Workflow:
    """A plan whose steps hand on texts: without steps that only modify another, and with every literal in some step."""
    steps = [step for step in workflow.subtasks if step.span is not None]
    if len(steps) < len(workflow):
        return workflow
    return _with_literals(instruction, _joined(instruction, workflow))


def _joined(instruction: str, workflow: Workflow) -> Workflow:
    """With modifiers in the step before them, whose place in the graph stays."""
    told = sorted(workflow.subtasks, key=lambda step: step.span or (0, 0))
    kept: list[Subtask] = []
    into: dict[str, str] = {}
    for step in told:
        assert step.span is not None
        before = kept[-1] if kept else None
        between = "" if before is None or before.span is None else instruction[before.span[1] : step.span[0]]
        if (
            before is not None
            and before.span is not None
            and _MODIFIER.match(step.instruction)
            and _JOINED.fullmatch(between)
        ):
            into[step.id] = before.id
            kept[-1] = _at(instruction, before, (before.span[0], step.span[1]))
        else:
            kept.append(step)
    if not into:
        return workflow
    parents: dict[str, list[str]] = {step.id: [] for step in kept}
    for step in told:
        home = into.get(step.id, step.id)
        parents[home] += [into.get(parent, parent) for parent in step.depends_on]
    joined = [
        step.model_copy(update={"depends_on": tuple(p for p in dict.fromkeys(parents[step.id]) if p != step.id)})
        for step in kept
    ]
    try:
        return Workflow(joined)
    except WorkflowError:  # the modifier took what comes later
        return workflow


def _with_literals(instruction: str, workflow: Workflow) -> Workflow:
    """With quotations and numbers that no step has in the nearest step: the one before them, or else the first."""
    told = sorted(range(len(workflow)), key=lambda i: workflow.subtasks[i].span or (0, 0))
    spans = [list(workflow.subtasks[i].span or (0, 0)) for i in told]
    for found in sorted((*_LITERAL.finditer(instruction), *_NUMBER.finditer(instruction)), key=lambda one: one.start()):
        if any(start <= found.start() and found.end() <= end for start, end in spans):
            continue
        before = [span for span in spans if span[1] <= found.start()]
        if before:
            before[-1][1] = found.end()
        elif found.end() <= spans[0][0]:
            spans[0][0] = found.start()
    steps = list(workflow.subtasks)
    for i, (start, end) in zip(told, spans, strict=True):
        if steps[i].span != (start, end):
            steps[i] = _at(instruction, steps[i], (start, end))
    return Workflow(steps)


def _at(instruction: str, step: Subtask, span: Sequence[int]) -> Subtask:
    start, end = span
    return step.model_copy(update={"instruction": clean(instruction[start:end]), "span": (start, end)})


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
