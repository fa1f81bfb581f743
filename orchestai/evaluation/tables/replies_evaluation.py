"""Single workers, fixed cascades and learned ones compared on replies that were run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations, product
from typing import Any, Final

import numpy as np
from rich.markup import escape
from rich.table import Table

from orchestai.data.tables.outcome_table import Rows, Values
from orchestai.errors import UserError
from orchestai.estimate.attempts import Attempts, Queries, price_cards
from orchestai.estimate.calibration import Calibration
from orchestai.estimate.escalation import Chances, Escalation, escalations
from orchestai.estimate.spending import SpendingEstimate
from orchestai.estimate.success import SuccessEstimate, fit_success, group_folds, learn
from orchestai.evaluation.statistics import Interval
from orchestai.evaluation.tables.estimates import Features, TableEstimates, nan_mean
from orchestai.evaluation.tables.folds import TableFolds, split_table
from orchestai.evaluation.tables.program_replies import ProgramReplies
from orchestai.evaluation.tables.router_metrics import (
    calibration_errors,
    chance_errors,
    cost_errors,
    reliability_of,
)
from orchestai.evaluation.tables.table_evaluation import refuse_taken_names
from orchestai.evaluation.tables.worker_estimate import OURS, queries_of

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
        spending = SpendingEstimate.fit(
            queries.take(learned), replies.table.cost_usd[learned], np.full(visible.shape[1], np.nan)
        )
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


BEST_SINGLE: Final = "best_single"
CASCADE: Final = "cascade"
OURS_AT_CASCADE_COST: Final = "ours_at_cascade_cost"
_LONGEST = 3


@dataclass(frozen=True, eq=False)
class RepliesEvaluation:
    """Success and cost of each row over the splits, with a value over all test queries and one per bootstrap draw.

    Attributes:
        replies: that were run.
        folds: the splits of their table.
        success, usd_per_1000: by row.
        chosen: row -> what it asked in each split, where training queries decide that.
        ece, ece_by_chance, cost_error: of what was expected of each worker's reply, see `estimate_metrics`.
        reliability: of the same, see `reliability_of`.
        notes: what a reader of the figures has to know.
    """

    replies: ProgramReplies
    folds: TableFolds
    success: dict[str, Values]
    usd_per_1000: dict[str, Values]
    chosen: dict[str, list[str]]
    ece: Values
    ece_by_chance: Values
    cost_error: Values
    reliability: list[list[float]]
    notes: list[str]

    def intervals(self, row: str) -> tuple[Interval, Interval]:
        """Success and US dollars per 1,000 queries."""
        return self.folds.interval(self.success[row]), self.folds.interval(self.usd_per_1000[row])

    def difference(self, row: str, other: str) -> tuple[Interval, Interval]:
        """Row minus other in success and in US dollars per 1,000, over the same queries."""
        return (
            self.folds.interval(self.success[row] - self.success[other]),
            self.folds.interval(self.usd_per_1000[row] - self.usd_per_1000[other]),
        )

    def to_dict(self) -> dict[str, Any]:
        """`{source: {row: {success: {mean, low, high, n}, usd_per_1000: ...}}}`, the agreement, and what was chosen."""
        rows = {}
        for row in self.success:
            success, cost = self.intervals(row)
            rows[row] = {"success": success.to_dict(), "usd_per_1000": cost.to_dict()}
        differences = {}
        for row, other in product((OURS, OURS_AT_CASCADE_COST), (BEST_SINGLE, CASCADE)):
            if {row, other} <= self.success.keys():
                success, cost = self.difference(row, other)
                differences[f"{row} - {other}"] = {"success": success.to_dict(), "usd_per_1000": cost.to_dict()}
        right, wrong = self.replies.agreement()
        table = self.replies.table
        facts = {
            "agreement": {"recorded_right_that_pass": right, "recorded_wrong_that_fail": wrong},
            "ece": {OURS: self.folds.interval(self.ece).to_dict()},
            "ece_by_chance": {OURS: self.folds.interval(self.ece_by_chance).to_dict()},
            "cost_error": {OURS: self.folds.interval(self.cost_error).to_dict()},
            "reliability": {OURS: self.reliability},
            "not_judged": int(np.isnan(table.score).sum()),
            "chosen": self.chosen,
            "differences": differences,
            "notes": self.notes,
            "seeds": list(self.folds.seeds),
            "test_sizes": list(self.folds.test_sizes),
            "queries": len(table),
        }
        return {table.source: rows, "replies": facts}

    def to_table(self) -> Table:
        """A row each, as printed."""
        table = self.replies.table
        printed = Table(title=escape(f"{table.source}: replies of {len(table)} queries, run"))
        for column in ("", "success", "USD per 1,000"):
            printed.add_column(column, justify="right" if column else "left")
        for row in self.success:
            cells = (f"{one.mean:.3f} [{one.low:.3f}, {one.high:.3f}]" for one in self.intervals(row))
            printed.add_row(escape(row), *cells)
        return printed


def evaluate_replies(
    replies: ProgramReplies,
    features: Features,
    named: Sequence[Sequence[str]] = (),
    *,
    budget: float = 1 / 15,
    seeds: Sequence[int] = (0, 1, 2),
) -> RepliesEvaluation:
    """Compare every worker, the best one, named cascades, the best cascade of three at most, and the learned one.

    The best ones are those that have most success on the training queries, where a cascade, fixed or learned, may only
    cost so much; if none is so cheap in some split, there is no row of it. All are measured on the test queries.

    Args:
        features: (queries, width) unit vectors of the queries' texts.
        named: cascades, by their workers' names.
        budget: of a chosen cascade, as a share of what the best single worker costs on the training queries.

    Raises:
        UserError: the table has no costs, no worker of a name, a name that the report needs, or no judged reply.
    """
    table = replies.table
    refuse_taken_names(table, (BEST_SINGLE, CASCADE, OURS, OURS_AT_CASCADE_COST))
    if not table.priced:
        raise UserError(f"{table.source}: this table holds no costs, without which all cascades ask everybody")
    for chain in named:
        if unknown := set(chain) - set(table.workers):
            raise UserError(f"--cascade: no worker {min(unknown)!r} here; there are {', '.join(table.workers)}")
        if not 0 < len(chain) == len(set(chain)) <= _LONGEST:
            raise UserError(f"--cascade: {', '.join(chain)}: one to {_LONGEST} different workers are wanted")
    folds = split_table(table, seeds)
    fixed = _FixedChains.of(replies)
    names = [*table.workers, *(" > ".join(chain) for chain in named)]
    outcomes = {name: [fixed.outcome(fixed.names.index(name))] * len(folds.splits) for name in names}
    chosen: dict[str, list[str]] = {}
    ece, by_chance, cost_error = [], [], []
    expected: list[tuple[Rows, Values]] = []
    for seed, split in zip(folds.seeds, folds.splits, strict=True):
        best, thrifty = fixed.best(split.train, budget)
        learned = learn_cascades(replies, queries_of(table, split.train, features), folds.groups, split.train, seed)
        weights = folds.weights[split.test]
        ece.append(calibration_errors(table, split.test, weights, learned.expected))
        by_chance.append(chance_errors(table, split.test, learned.expected, weights.shape[1] - 1))
        cost_error.append(cost_errors(table, split.test, weights, learned.expected))
        expected.append((split.test, learned.expected.score))
        most = {OURS: budget * fixed.cost_of(best, split.train)}
        picked = {BEST_SINGLE: best}
        if thrifty is not None:
            picked[CASCADE] = thrifty
            most[OURS_AT_CASCADE_COST] = fixed.cost_of(thrifty, split.train)
        for row, place in picked.items():
            outcomes.setdefault(row, []).append(fixed.outcome(place))
            chosen.setdefault(row, []).append(fixed.names[place])
        for row, most_usd in most.items():
            if (weight := learned.best(split.train, most_usd)) is not None:
                outcomes.setdefault(row, []).append((learned.success[weight], learned.cost_usd[weight]))
                chosen.setdefault(row, []).append(f"cost counts {WEIGHTS[weight]:.3g}")
    notes = []
    for row in (CASCADE, OURS, OURS_AT_CASCADE_COST):
        if len(outcomes.get(row, ())) < len(folds.splits):
            outcomes.pop(row, None)
            chosen.pop(row, None)
            notes.append(f"{row}: none costs {budget:.3g} of the best single worker or less in every split")
    return RepliesEvaluation(
        replies,
        folds,
        {row: _mean(folds, [success for success, _ in own]) for row, own in outcomes.items()},
        {row: 1000 * _mean(folds, [cost for _, cost in own]) for row, own in outcomes.items()},
        chosen,
        np.mean(ece, axis=0),
        np.mean(by_chance, axis=0),
        np.mean(cost_error, axis=0),
        reliability_of(table, expected),
        notes,
    )


@dataclass(frozen=True, eq=False)
class _FixedChains:
    """All orders of one to three workers, single ones first: names, and success and cost by (chain, query)."""

    names: list[str]
    success: Values
    cost_usd: Values
    singles: int

    @classmethod
    def of(cls, replies: ProgramReplies) -> _FixedChains:
        workers = replies.table.workers
        every = list(chains(len(workers), min(_LONGEST, len(workers))))
        success, cost = map(np.stack, zip(*(chain_outcomes(replies, chain) for chain in every), strict=True))
        return cls([" > ".join(workers[worker] for worker in chain) for chain in every], success, cost, len(workers))

    def outcome(self, place: int) -> tuple[Values, Values]:
        return self.success[place], self.cost_usd[place]

    def cost_of(self, place: int, rows: Rows) -> float:
        return float(nan_mean(self.cost_usd[place, rows]))

    def best(self, rows: Rows, budget: float) -> tuple[int, int | None]:
        """The single worker, and the chain of at most a share of its cost, of most success on these queries."""
        success, cost = nan_mean(self.success[:, rows].T), nan_mean(self.cost_usd[:, rows].T)
        if np.isnan(success[: self.singles]).all():
            raise UserError("no reply to the queries to learn from was judged, at a known cost")
        best = int(np.nanargmax(success[: self.singles]))
        thrifty = np.flatnonzero(cost <= budget * cost[best])
        return best, int(thrifty[success[thrifty].argmax()]) if thrifty.size else None


def _mean(folds: TableFolds, values: Sequence[Values]) -> Values:
    """(1 + draws,) the mean over the splits of the weighted mean over the test queries."""
    means = []
    for split, own in zip(folds.splits, values, strict=True):
        tested, weights = own[split.test], folds.weights[split.test]
        known = np.isfinite(tested)
        means.append(tested[known] @ weights[known] / weights[known].sum(axis=0))
    return np.mean(means, axis=0)
