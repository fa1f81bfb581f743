"""Parts to learn from and to test on, with near-duplicates on one side."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from orchestai.data.tables.outcome_table import Rows

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
