"""Fixed cascades: ask one worker after the other until a reply passes the visible test."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import permutations

import numpy as np

from orchestai.data.tables.outcome_table import Values
from orchestai.evaluation.tables.replies.program_replies import ProgramReplies


def chain_outcomes(replies: ProgramReplies, chain: Sequence[int]) -> tuple[Values, Values]:
    """(queries,) success and cost in US dollars of a chain of workers, by index.

    The answer is the first reply that passes the visible test, or the last one. All that were asked are paid. NaN where
    what happens depends on a reply that was not judged, or whose cost is not known.
    """
    asked = np.ones(len(replies.table), dtype=bool)
    unjudged = np.zeros(len(replies.table), dtype=bool)
    score, cost = np.full(len(replies.table), np.nan), np.zeros(len(replies.table))
    for worker in chain:
        score[asked] = replies.table.score[asked, worker]
        cost[asked] += replies.table.cost_usd[asked, worker]
        unjudged |= asked & np.isnan(replies.visible[:, worker])
        asked &= replies.visible[:, worker] != 1
    unknown = unjudged | np.isnan(score) | np.isnan(cost)
    return np.where(unknown, np.nan, score), np.where(unknown, np.nan, cost)


def chains(workers: int, longest: int) -> Iterator[tuple[int, ...]]:
    """All orders of one to `longest` different workers."""
    for length in range(1, longest + 1):
        yield from permutations(range(workers), length)
