"""A table of outcomes as attempts at whole tasks, and the pool's estimate learned from it."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from orchestai.data.tables.near_duplicates import near_duplicate_groups
from orchestai.data.tables.outcome_table import OutcomeTable, Values
from orchestai.estimate.pool_estimate import PoolEstimate, fit_pool_estimate
from orchestai.estimate.step_attempts import WHOLE, StepAttempts
from orchestai.estimate.success import group_folds
from orchestai.planner.slots.encoders.query_features import query_features


def table_estimate(
    table: OutcomeTable, prices: Values, cache_dir: Path, visible: Values | None = None
) -> PoolEstimate | None:
    """What the table's workers achieve and take on its queries, each asked whole; None where too little is known.

    Near-duplicates are held out together, so that what is learned holds for queries that are new.

    Args:
        prices: (workers,) US dollars of a typical request, 0 where nobody knows.
        cache_dir: see `query_features`.
        visible: (queries, workers) 1 where a reply passed the check that whoever asks can see, 0 where it did not; None
            where there is no such check.
    """
    attempts = table_attempts(table, prices, visible)
    folds = group_folds(attempts.groups, 0)[attempts.row]
    kinds = table.task_types if len(set(table.task_types)) > 1 else ()
    return fit_pool_estimate(attempts, query_features(table.texts, cache_dir), kinds=kinds, folds=folds)


def table_attempts(table: OutcomeTable, prices: Values, visible: Values | None = None) -> StepAttempts:
    """Each outcome as an execution of one step, the whole task; see `table_estimate`."""
    known = np.isfinite(table.score) & (True if visible is None else np.isfinite(visible))
    row, worker = np.nonzero(known)
    score = table.score[known]
    passed = np.ones(len(row)) if visible is None else visible[known]
    cost, seconds = table.cost_usd[known], table.latency_s[known]
    return StepAttempts(
        workers=table.workers,
        texts=table.texts,
        task_types=(WHOLE,) * len(table),
        groups=near_duplicate_groups(table.texts, types=table.task_types),
        prices=prices,
        planned=tuple(((int(one), (int(who),)),) for one, who in zip(row, worker, strict=True)),
        succeeded=score,
        spent_usd=cost,
        seconds=seconds,
        execution=np.arange(len(row)),
        row=row,
        worker=worker,
        passed=passed,
        right=score * passed,
        spending=np.stack([cost, seconds, table.tokens[known]], axis=1),
    )
