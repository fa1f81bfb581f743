"""Single workers and fixed cascades compared on replies that were run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from rich.table import Table

from orchestai.data.tables.outcome_table import Values
from orchestai.errors import UserError
from orchestai.evaluation.statistics import Interval
from orchestai.evaluation.tables.estimates import nan_mean
from orchestai.evaluation.tables.folds import TableFolds, split_table
from orchestai.evaluation.tables.replies.cascades import chain_outcomes, chains
from orchestai.evaluation.tables.replies.program_replies import ProgramReplies
from orchestai.evaluation.tables.report_names import refuse_taken_names

BEST_SINGLE: Final = "best_single"
CASCADE: Final = "cascade"
_LONGEST = 3


@dataclass(frozen=True, eq=False)
class RepliesEvaluation:
    """Success and cost of each row over the splits, with a value over all test queries and one per bootstrap draw.

    Attributes:
        replies: that were run.
        folds: the splits of their table.
        success, usd_per_1000: by row.
        chosen: row -> what it asked in each split, where training queries decide that.
        notes: what a reader of the figures has to know.
    """

    replies: ProgramReplies
    folds: TableFolds
    success: dict[str, Values]
    usd_per_1000: dict[str, Values]
    chosen: dict[str, list[str]]
    notes: list[str]

    def intervals(self, row: str) -> tuple[Interval, Interval]:
        """Success and US dollars per 1,000 queries."""
        return self.folds.interval(self.success[row]), self.folds.interval(self.usd_per_1000[row])

    def to_dict(self) -> dict[str, Any]:
        """`{source: {row: {success: {mean, low, high, n}, usd_per_1000: ...}}}`, the agreement, and what was chosen."""
        rows = {}
        for row in self.success:
            success, cost = self.intervals(row)
            rows[row] = {"success": success.to_dict(), "usd_per_1000": cost.to_dict()}
        right, wrong = self.replies.agreement()
        table = self.replies.table
        facts = {
            "agreement": {"recorded_right_that_pass": right, "recorded_wrong_that_fail": wrong},
            "not_judged": int(np.isnan(table.score).sum()),
            "chosen": self.chosen,
            "notes": self.notes,
            "seeds": list(self.folds.seeds),
            "test_sizes": list(self.folds.test_sizes),
            "queries": len(table),
        }
        return {table.source: rows, "replies": facts}

    def to_table(self) -> Table:
        """A row each, as printed."""
        printed = Table(title=f"{self.replies.table.source}: replies of {len(self.replies.table)} queries, run")
        for column in ("", "success", "USD per 1,000"):
            printed.add_column(column, justify="right" if column else "left")
        for row in self.success:
            cells = (f"{one.mean:.3f} [{one.low:.3f}, {one.high:.3f}]" for one in self.intervals(row))
            printed.add_row(row, *cells)
        return printed


def evaluate_replies(
    replies: ProgramReplies,
    named: Sequence[Sequence[str]] = (),
    *,
    budget: float = 1 / 15,
    seeds: Sequence[int] = (0, 1, 2),
) -> RepliesEvaluation:
    """Compare every single worker, the best one, named cascades, and the best cascade of three at most.

    The best ones are those that have most success on the training queries, where a cascade may only cost so much; if
    none is so cheap in some split, there is no row of it. All are measured on the test queries.

    Args:
        named: cascades, by their workers' names.
        budget: of the chosen cascade, as a share of what the best single worker costs on the training queries.

    Raises:
        UserError: the table has no costs, no worker of a name, a name that the report needs, or no judged reply.
    """
    table = replies.table
    refuse_taken_names(table, (BEST_SINGLE, CASCADE))
    if not table.priced:
        raise UserError(f"{table.source}: this table holds no costs, without which all cascades ask everybody")
    for chain in named:
        if unknown := set(chain) - set(table.workers):
            raise UserError(f"--cascade: no worker {min(unknown)!r} here; there are {', '.join(table.workers)}")
        if not 0 < len(chain) == len(set(chain)) <= _LONGEST:
            raise UserError(f"--cascade: {', '.join(chain)}: one to {_LONGEST} different workers are wanted")
    folds = split_table(table, seeds)
    every = list(chains(len(table.workers), min(_LONGEST, len(table.workers))))
    scores, costs = map(np.stack, zip(*(chain_outcomes(replies, chain) for chain in every), strict=True))
    names = [" > ".join(table.workers[worker] for worker in chain) for chain in every]
    fixed = [*table.workers, *(" > ".join(chain) for chain in named)]
    picked = {name: [names.index(name)] * len(folds.splits) for name in fixed}
    for split in folds.splits:
        success, cost = nan_mean(scores[:, split.train].T), nan_mean(costs[:, split.train].T)
        if np.isnan(success[: len(table.workers)]).all():
            raise UserError(f"{table.source}: no reply to the queries to learn from was judged, at a known cost")
        best = int(np.nanargmax(success[: len(table.workers)]))
        picked.setdefault(BEST_SINGLE, []).append(best)
        if (thrifty := np.flatnonzero(cost <= budget * cost[best])).size:
            picked.setdefault(CASCADE, []).append(int(thrifty[success[thrifty].argmax()]))
    notes = []
    if len(picked.get(CASCADE, ())) < len(folds.splits):
        picked.pop(CASCADE, None)
        notes.append(f"no cascade costs {budget:.3g} of the best single worker or less, so that none was chosen")
    return RepliesEvaluation(
        replies,
        folds,
        {row: _mean(folds, scores, places) for row, places in picked.items()},
        {row: 1000 * _mean(folds, costs, places) for row, places in picked.items()},
        {row: [names[place] for place in picked[row]] for row in (BEST_SINGLE, CASCADE) if row in picked},
        notes,
    )


def _mean(folds: TableFolds, values: Values, places: Sequence[int]) -> Values:
    """(1 + draws,) the mean over the splits of the weighted mean over the test queries of the chain of each."""
    means = []
    for split, place in zip(folds.splits, places, strict=True):
        own, weights = values[place, split.test], folds.weights[split.test]
        known = np.isfinite(own)
        means.append(own[known] @ weights[known] / weights[known].sum(axis=0))
    return np.mean(means, axis=0)
