"""Cascades whose next worker is chosen by the estimate, given those that failed the visible test before."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from orchestai.data.tables.outcome_table import Rows, Values
from orchestai.estimate.attempts import Attempts, Queries, price_cards
from orchestai.estimate.calibration import Calibration
from orchestai.estimate.escalation import Chances, Escalation, escalations
from orchestai.estimate.spending import SpendingEstimate
from orchestai.estimate.success import SuccessEstimate, fit_success, group_folds, learn
from orchestai.evaluation.tables.estimates import TableEstimates, nan_mean
from orchestai.evaluation.tables.replies.program_replies import ProgramReplies

WEIGHTS: Final = np.append(0.0, np.logspace(-2, 0.75, 23))
"""Success that is given up for the mean cost of the most expensive worker, none first."""


@dataclass(frozen=True, eq=False)
class LearnedCascades:
    """What came of asking as the estimate says, at each weight on cost.

    Attributes:
        success, cost_usd: (weights, queries); of queries to learn from, by estimates that did not know them. NaN where
            what happens depends on a reply that was not judged, or whose cost is not known.
        expected: (queries, workers) that the worker's reply is right, and what it costs; likewise.
    """

    success: Values
    cost_usd: Values
    expected: TableEstimates

    def best(self, rows: Rows, most_usd: float) -> int | None:
        """The weight of most success on these queries at no more than a mean cost; of equals the cheapest."""
        success, cost = nan_mean(self.success[:, rows].T), nan_mean(self.cost_usd[:, rows].T)
        thrifty = np.flatnonzero(cost <= most_usd * (1 + 1e-9))
        if not thrifty.size:
            return None
        return int(thrifty[np.lexsort((cost[thrifty], -success[thrifty]))[0]])


def learn_cascades(replies: ProgramReplies, queries: Queries, groups: Rows, train: Rows, seed: int) -> LearnedCascades:
    """Learn from the training queries which replies pass, and which of these are right; and ask accordingly.

    Args:
        queries: of the replies' table.
        groups: (queries,) numbers of groups of near-duplicates.
        train: rows to learn from.
        seed: of the folds.
    """
    visible = replies.visible
    right = np.where(visible == 1, replies.table.score, np.nan)
    cards = price_cards(nan_mean(replies.table.cost_usd[train]))
    attempts = Attempts(queries, np.hstack([visible, right]), np.vstack([cards, cards]), groups)
    prices = WEIGHTS / np.nanmax(nan_mean(replies.table.cost_usd[train]))
    estimate = fit_success(attempts.take(train), seed=seed).estimate
    shape = len(WEIGHTS), len(queries)
    success, cost = np.full(shape, np.nan), np.full(shape, np.nan)
    right_expected, cost_expected = np.full(visible.shape, np.nan), np.full(visible.shape, np.nan)
    folds = np.full(len(queries), -1)
    folds[train] = group_folds(groups[train], seed)
    for fold in np.unique(folds):
        learned = train if fold < 0 else train[folds[train] != fold]
        own = estimate if fold < 0 else learn(attempts.take(learned), estimate.strengths, Calibration())
        rows = np.flatnonzero(folds == fold)
        spending = SpendingEstimate.fit(queries.take(learned), replies.table.cost_usd[learned], _unknown(visible))
        for row, chances in zip(rows, _chances(own, spending, queries.take(rows)), strict=True):
            right_expected[row], cost_expected[row] = (
                (chances.passes * chances.right) @ chances.belief,
                chances.cost_usd,
            )
            for place, policy in enumerate(escalations(chances, prices)):
                success[place, row], cost[place, row] = asked(replies, int(row), policy)
    return LearnedCascades(success, cost, TableEstimates(right_expected, cost_expected))


def asked(replies: ProgramReplies, row: int, policy: Escalation) -> tuple[float, float]:
    """Success and cost in US dollars of asking for one query as the policy says; NaN where the table cannot say."""
    failed: frozenset[int] = frozenset()
    success, cost = 0.0, 0.0
    while (worker := policy.after(failed)) is not None:
        success = float(replies.table.score[row, worker])
        cost += float(replies.table.cost_usd[row, worker])
        if np.isnan(replies.visible[row, worker]):
            return float("nan"), float("nan")
        if replies.visible[row, worker] == 1:
            break
        failed |= {worker}
    return (success, cost) if np.isfinite(success + cost) else (float("nan"), float("nan"))


def _chances(estimate: SuccessEstimate, spending: SpendingEstimate, queries: Queries) -> list[Chances]:
    """Those of each query's workers."""
    chances = estimate.success_at_points(queries)
    workers = chances.shape[1] // 2
    costs, beliefs = spending.expected(queries), estimate.belief(queries)
    return [
        Chances(own[:workers], own[workers:], cost, belief)
        for own, cost, belief in zip(chances, costs, beliefs, strict=True)
    ]


def _unknown(values: Values) -> Values:
    return np.full(values.shape[1], np.nan)
