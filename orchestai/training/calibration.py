"""Fits how sure a planner of heads is of its plans to how often they are right."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice
from typing import TypeAlias

import torch

from orchestai.planner.base import Plan
from orchestai.planner.plan_metrics import HALF, is_right
from orchestai.planner.slots.model import PlannerModel
from orchestai.planner.slots.scores import FEWEST
from orchestai.tasks.instructions import NAME, held_out_instructions
from orchestai.tasks.task import Task
from orchestai.types import Decisions
from orchestai.workflow import Workflow

Judged: TypeAlias = tuple[str, Decisions, bool]
"""An instruction, what was decided about it, and whether the plan is right."""
_QUARTER = 0.25
"""Judged so, 79 of 80 plans come out as by references that also name other readings of a step (docs/natural.md)."""
_OTHER_WORDINGS = 120
"""Synthetic instructions that confidence is fitted to where validation has none."""


def judge_plans(
    planner: PlannerModel,
    instructions: Sequence[str],
    plans: Sequence[Plan],
    references: Sequence[Workflow | None],
) -> list[Judged]:
    """Which of its plans are right, of those that are plans and have a reference.

    A reference has one reading of its instruction. A step with more of them, or fewer, is the same step, unless
    steps may share words: then it may be another.
    """
    share = HALF if planner.config.overlapping_spans else _QUARTER
    return [
        (instruction, plan.decisions, is_right(plan.workflow, reference, share))
        for instruction, plan, reference in zip(instructions, plans, references, strict=True)
        if plan.workflow is not None and isinstance(plan.decisions, Decisions) and reference is not None
    ]


def calibrate(planner: PlannerModel, judged: Sequence[Judged], suites: Sequence[str]) -> None:
    """Learn how likely the planner is right from its plans for what it has not learned.

    Where they are too few nobody knows its confidence any more: that of before was of other weights.

    Synthetic instructions are among them, whatever was learned: a planner that knows one suite alone must not take
    itself to be sure of another wording.

    Args:
        suites: that the instructions are of.
    """
    planner.confidence.forget()
    if len(judged) < FEWEST:
        return
    others = [] if NAME in suites else list(islice(held_out_instructions(), _OTHER_WORDINGS))
    texts, references = [other.instruction for other in others], [other.workflow() for other in others]
    judged = [*judged, *judge_plans(planner, texts, planner.plan_instructions(texts), references)]
    instructions, decisions, right = zip(*judged, strict=True)
    features = planner.sureness(instructions, decisions)
    planner.confidence.fit(features, torch.tensor(right, device=features.device))


def calibrate_anew(planner: PlannerModel, tasks: Sequence[Task]) -> None:
    """The same for a planner whose steps and edges have changed, from those tasks whose plan is known."""
    known = with_reference(tasks)
    texts, references = [task.instruction for task in known], [task.reference for task in known]
    judged = judge_plans(planner, texts, planner.plan(known), references)
    calibrate(planner, judged, [task.suite for task in known])


def with_reference(tasks: Sequence[Task]) -> list[Task]:
    """Those whose right plan is known, step by step, in words of the instruction."""
    return [
        task
        for task in tasks
        if task.reference is not None and all(step.span is not None for step in task.reference.subtasks)
    ]
