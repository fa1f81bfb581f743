"""Attempts at subtasks, as logged executions hold them: what a pool's estimate is learned from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np

from orchestai.estimate.attempts import Rows, Values

WHOLE: Final = "whole task"
"""The task type of a task that is asked for as it stands."""
PlannedStep: TypeAlias = tuple[int, tuple[int, ...]]
"""A row of the subtasks, and the workers that may be asked for it, by index and in order."""


@dataclass(frozen=True, eq=False)
class StepAttempts:
    """Every worker that was asked for a subtask in executions that were judged.

    Attributes:
        workers: of the pool.
        texts, task_types: (subtasks,) each different subtask once.
        groups: (subtasks,) numbers; subtasks of one group say nearly the same.
        prices: (workers,) US dollars of a typical request by the cards.
        planned: for each execution its steps.
        succeeded: (executions,) whether the answer had the full score.
        spent_usd, seconds: (executions,) what each took, `seconds` on its critical path; NaN where nobody measured.
        execution, row, worker: (attempts,) indices.
        passed: (attempts,) whether there was an answer that its subtask's own check did not refuse.
        right: (attempts,) how probably it was right; 0 where it did not pass, NaN where nothing is known.
        spending: (attempts, 3) US dollars, seconds and tokens; NaN where nobody measured.
    """

    workers: tuple[str, ...]
    texts: tuple[str, ...]
    task_types: tuple[str, ...]
    groups: Rows
    prices: Values
    planned: tuple[tuple[PlannedStep, ...], ...]
    succeeded: Values
    spent_usd: Values
    seconds: Values
    execution: Rows
    row: Rows
    worker: Rows
    passed: Values
    right: Values
    spending: Values

    def counts(self, which: Values | None = None) -> tuple[Values, Values]:
        """(subtasks, 2 * workers) how often each was tried, and how often it succeeded.

        A worker's first column is of passing its check, the second, `workers` further, of being right where it passed.

        Args:
            which: (attempts,) bool, those that count; None is all.
        """
        count = len(self.workers)
        tried, won = np.zeros((len(self.texts), 2 * count)), np.zeros((len(self.texts), 2 * count))
        kept = np.ones(len(self.row), dtype=bool) if which is None else which.astype(bool)
        row, worker, passed, right = self.row[kept], self.worker[kept], self.passed[kept], self.right[kept]
        np.add.at(tried, (row, worker), 1.0)
        np.add.at(won, (row, worker), passed)
        np.add.at(tried, (row, worker + count), passed * np.isfinite(right))
        np.add.at(won, (row, worker + count), np.nan_to_num(right))
        return tried, won

    def spent(self) -> tuple[Values, Values]:
        """(subtasks, workers) how often each was asked, and (3, subtasks, workers) what that took in the mean.

        A mean is of what was measured, NaN where nothing was.
        """
        shape = len(self.texts), len(self.workers)
        asked, totals, measured = np.zeros(shape), np.zeros((3, *shape)), np.zeros((3, *shape))
        cells = self.row, self.worker
        np.add.at(asked, cells, 1.0)
        for total, count, values in zip(totals, measured, self.spending.T, strict=True):
            np.add.at(total, cells, np.nan_to_num(values))
            np.add.at(count, cells, np.isfinite(values))
        return asked, np.divide(totals, measured, out=np.full_like(totals, np.nan), where=measured > 0)
