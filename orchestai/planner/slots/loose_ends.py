"""Results that nobody takes: a plan whose answer is one result rarely has any, which no single step's parents tell."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import torch
from torch import Tensor

from orchestai.workflow import Workflow


def one_result_log_odds(workflows: Iterable[Workflow]) -> float:
    """Log odds that a plan has one step whose result no other takes, rather than several (Laplace's estimate)."""
    one = several = 1
    for workflow in workflows:
        taken = {parent for subtask in workflow.subtasks for parent in subtask.depends_on}
        if sum(subtask.id not in taken for subtask in workflow.subtasks) == 1:
            one += 1
        else:
            several += 1
    return math.log(one / several)


def loose_ends(edges: Tensor, steps: Tensor) -> Tensor:
    """(rows,) how many steps' results nobody takes beyond one, of (rows, n, n) edges among (rows, n) steps."""
    return ((~edges.any(2) & steps).sum(1) - 1).clamp(min=0)


def join_loose_ends(edges: Tensor, edge_logits: Tensor, count_logits: Tensor, steps: Tensor, log_odds: float) -> Tensor:
    """Give results that nobody takes to the steps that come nearest to taking them.

    One end after the other is joined by the change of one step's parents that costs the least likelihood: the result is
    taken beside the others, or instead of one that another step takes, too. Changes that would close a cycle, or cost
    more than `log_odds`, are not made.

    Args:
        edges: (rows, n, n) bool as `likeliest_edges` gives them; the other arguments are its.
        log_odds: of plans with one result; at most 0 changes nothing.

    Returns:
        (rows, n, n) bool.
    """
    found = edges.clone()
    counts = count_logits.log_softmax(-1)
    for row in loose_ends(edges, steps).nonzero().flatten().tolist():
        n = int(steps[row].sum())
        _join(found[row, :n, :n], edge_logits[row, :n, :n], counts[row, :n], log_odds)
    return found


class _Change(NamedTuple):
    cost: float
    step: int
    parents: Tensor


def _join(edges: Tensor, logits: Tensor, counts: Tensor, log_odds: float) -> None:
    """`join_loose_ends` of one plan of n steps, in place."""
    while True:
        ends = (~edges.any(1)).nonzero().flatten().tolist()
        change = min(_changes(edges, logits, counts, ends), default=None, key=lambda change: change.cost)
        if len(ends) < 2 or change is None or change.cost >= log_odds:
            return
        edges[:, change.step] = change.parents


def _changes(edges: Tensor, logits: Tensor, counts: Tensor, ends: list[int]) -> Iterator[_Change]:
    """Those that join one of the ends and leave no other."""
    n = len(edges)
    reach = torch.eye(n, dtype=torch.bool, device=edges.device) | edges
    for _ in range(n.bit_length()):
        reach = (reach.float() @ reach.float()) > 0

    def likelihood(step: int, parents: Tensor) -> float:
        return float(counts[step, int(parents.sum())] + logits[parents, step].sum())

    for step in range(n):
        parents = edges[:, step]
        now = likelihood(step, parents)
        shared = [i for i in parents.nonzero().flatten().tolist() if edges[i].sum() > 1]
        for end in (end for end in ends if not reach[step, end]):
            for left in (None, *shared):
                changed = parents.clone()
                changed[end] = True
                if left is not None:
                    changed[left] = False
                yield _Change(now - likelihood(step, changed), step, changed)
