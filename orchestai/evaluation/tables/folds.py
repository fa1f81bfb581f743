"""The splits of a table that all routers are compared on, and the bootstrap draws that they share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from orchestai.data.tables.near_duplicates import near_duplicate_groups
from orchestai.data.tables.outcome_table import OutcomeTable, Rows, Values
from orchestai.errors import UserError
from orchestai.evaluation.statistics import Interval
from orchestai.evaluation.tables.router_metrics import usable_rows

TEST_SHARE: Final = 0.2


@dataclass(frozen=True, eq=False)
class TableSplit:
    """Rows of a table, ascending; no group has rows in both."""

    train: Rows
    test: Rows


def split_by_groups(
    groups: Rows, task_types: Sequence[str], *, seed: int, test_share: float = TEST_SHARE
) -> TableSplit:
    """Draw whole groups into the test part until it has its share of every task type's rows, up to one group's size.

    A group counts as of the type of most of its rows. Types so small that none of their rows would be tested count as
    one. A type of which a single group exists stays in the training part.

    Args:
        groups: (queries,) the number of each query's group.
        task_types: (queries,)
        test_share: of the rows, in (0, 1).

    Raises:
        ValueError: the share is not inside (0, 1).
    """
    if not 0 < test_share < 1:
        raise ValueError(f"test_share is {test_share}, not between 0 and 1")
    members: dict[int, list[int]] = {}
    for row, group in enumerate(groups):
        members.setdefault(int(group), []).append(row)
    of_type: dict[str, list[list[int]]] = {}
    for rows in members.values():
        [(task_type, _)] = Counter(task_types[row] for row in rows).most_common(1)
        of_type.setdefault(task_type, []).append(rows)
    rng = np.random.default_rng(seed)
    test: list[int] = []
    small = {name for name, own in of_type.items() if test_share * sum(map(len, own)) < 0.5}
    pooled = [rows for name in sorted(small) for rows in of_type[name]]
    for own in [*(of_type[name] for name in sorted(of_type.keys() - small)), pooled]:
        wanted = test_share * sum(map(len, own))
        drawn = 0
        for place in rng.permutation(len(own)) if len(own) > 1 else ():
            if drawn + len(own[place]) / 2 <= wanted:
                test += own[place]
                drawn += len(own[place])
    chosen = np.zeros(len(groups), dtype=bool)
    chosen[test] = True
    return TableSplit(np.flatnonzero(~chosen), np.flatnonzero(chosen))


_DRAWS = 1000
_MANY = 50
"""Queries of a type, of which one at least should be tested."""


@dataclass(frozen=True, eq=False)
class TableFolds:
    """Several splits of one table.

    Attributes:
        seeds: of the splits.
        splits: with the rows on which some worker's outcome is known.
        groups: (queries,) numbers of groups of near-duplicates.
        weights: (queries, 1 + draws) how often each query counts: once, then as often as its group of near-duplicates
            was drawn, in all splits alike. Differences of routers are so paired, and queries that several test parts
            share do not count as independent.
    """

    seeds: tuple[int, ...]
    splits: tuple[TableSplit, ...]
    groups: Rows
    weights: Values

    @property
    def test_sizes(self) -> tuple[int, ...]:
        """Queries in each test part."""
        return tuple(len(split.test) for split in self.splits)

    @property
    def tested_groups(self) -> int:
        """The number of groups of near-duplicates in the test parts together."""
        return len(np.unique(self.groups[np.concatenate([split.test for split in self.splits])]))

    def untested_types(self, task_types: Sequence[str]) -> list[str]:
        """Types, of fifty queries at least, of which no query is in any test part."""
        tested = {task_types[row] for split in self.splits for row in split.test}
        counts = Counter(task_types)
        return sorted(kind for kind, count in counts.items() if kind and count >= _MANY and kind not in tested)

    def mean(self, values: Sequence[Values]) -> Values:
        """(1 + draws,) the mean of a metric's values over the splits in which it is known, if it is in any."""
        return np.mean([own for own in values if np.isfinite(own[0])] or values, axis=0)

    def interval(self, values: Values) -> Interval:
        """The first of a metric's values, (1 + draws,), with the 95 % interval of the others."""
        drawn = values[1:][~np.isnan(values[1:])]
        low, high = np.quantile(drawn, (0.025, 0.975)) if drawn.size else (np.nan, np.nan)
        tested = np.unique(np.concatenate([split.test for split in self.splits]))
        return Interval(float(values[0]), float(low), float(high), len(tested))


def split_table(table: OutcomeTable, seeds: Sequence[int]) -> TableFolds:
    """Split a table once per seed.

    Raises:
        UserError: the table has fewer than two workers, or too few queries to split.
    """
    if len(table.workers) < 2:
        raise UserError(f"{table.source}: a table of one worker leaves no choice; two are needed at least")
    groups = near_duplicate_groups(table.texts, types=table.task_types)
    splits = []
    for seed in seeds:
        split = split_by_groups(groups, table.task_types, seed=seed)
        split = TableSplit(usable_rows(table, split.train), usable_rows(table, split.test))
        if not split.train.size or not split.test.size:
            count = len(np.unique(groups))
            known = usable_rows(table, np.arange(len(table)))
            if len(np.unique(groups[known])) < count:
                costs = "; where most costs are unknown, --columns cost_usd= leaves them out" if table.priced else ""
                raise UserError(
                    f"{table.source}: only {len(known)} of {len(table)} queries have an outcome with a score"
                    f"{' and a cost' if table.priced else ''}, too few to learn from some and test on others{costs}"
                )
            raise UserError(
                f"{table.source}: {len(table)} queries are {count} group{'s' * (count != 1)} of near-duplicates: too "
                "few to learn from some and test on others; add queries that say something else"
            )
        splits.append(split)
    return TableFolds(tuple(seeds), tuple(splits), groups, _drawn_weights(groups, [split.test for split in splits]))


def _drawn_weights(groups: Rows, tests: Sequence[Rows]) -> Values:
    """Of a small table, draws without any query of some test part are left out."""
    count = int(groups.max()) + 1
    drawn = np.random.default_rng(0).multinomial(count, np.full(count, 1 / count), size=_DRAWS)
    weights = np.vstack([np.ones(len(groups)), drawn[:, groups]]).T
    return weights[:, np.all([weights[test].any(axis=0) for test in tests], axis=0)]
