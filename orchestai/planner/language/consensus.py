"""Of several plans for one task, the one that agrees most with the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from orchestai.planner.base import Plan
from orchestai.planner.plan_metrics import edges_of, f1, is_right, match_spans, shared_edges
from orchestai.workflow import Workflow


def most_agreed(plans: Sequence[Plan]) -> Plan:
    """The valid plan that shares most with all others on average; the first of several, and of none that is valid.

    With F1 of steps and edges as what a plan is worth, this is the plan of least expected loss under the samples
    (minimum Bayes risk; Kumar and Byrne 2004). Invalid plans share nothing. Its confidence is the share of the others
    that are the same plan.
    """
    valid = [plan for plan in plans if plan.workflow is not None and plan.raw_valid]
    if not valid:
        return plans[0]
    best = max(valid, key=lambda plan: sum(shared(plan, other) for other in valid if other is not plan))
    same = sum(_is_same(best, other) for other in valid if other is not best)
    return replace(best, logp=None, confidence=same / max(len(plans) - 1, 1))


def shared(plan: Plan, other: Plan) -> float:
    """F1 of the steps and edges, counted together, that two valid plans have in common."""
    a, b = _workflow(plan), _workflow(other)
    match, ours, theirs = match_spans(a, b), edges_of(a), edges_of(b)
    return f1(len(match) + shared_edges(ours, theirs, match), len(a) + len(ours), len(b) + len(theirs))


def _is_same(plan: Plan, other: Plan) -> bool:
    return is_right(_workflow(other), _workflow(plan))


def _workflow(plan: Plan) -> Workflow:
    assert plan.workflow is not None
    return plan.workflow
