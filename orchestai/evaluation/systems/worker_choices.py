"""Whom a planner asked first, against the cheapest worker that was right in hindsight."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from orchestai.evaluation.systems.results import SystemRow
from orchestai.planner.base import Plan


def worker_choices(row: SystemRow, hindsight: Sequence[Plan], workers: Sequence[str]) -> dict[str, Any] | None:
    """`counts[i][j]` of steps for which `workers[i]` was asked first and `best[j]` is the cheapest that is right.

    Compared are steps that the reference decomposition has in the same words, of tasks all of whose steps some worker
    is right on; None where there are none.

    Args:
        hindsight: a plan per task, with the right workers (`Hindsight.plans`).
    """
    counts: Counter[tuple[str, str]] = Counter()
    for result, plan in zip(row.results, hindsight, strict=True):
        if result.workflow is None or plan.workflow is None:
            continue
        right = {subtask.instruction: subtask.worker for subtask in plan.workflow.subtasks}
        for subtask in result.workflow.subtasks:
            if subtask.instruction in right:
                counts[subtask.worker, right[subtask.instruction]] += 1
    if not counts:
        return None
    return {
        "workers": list(workers),
        "best": list(workers),
        "counts": [[counts[i, j] for j in workers] for i in workers],
    }
