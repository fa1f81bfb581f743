"""Each worker's mean score on training queries of the same task type."""

from __future__ import annotations

from orchestai.data.tables.outcome_table import Values
from orchestai.evaluation.tables.estimates import Fold, means_by_task


def estimate(fold: Fold) -> Values:
    """(queries, workers) means by task type; over all queries where the table has no types."""
    return means_by_task(fold, fold.table.score)
