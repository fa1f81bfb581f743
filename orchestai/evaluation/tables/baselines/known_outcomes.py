"""What is really the case: the bound of what choosing one worker per query can reach."""

from __future__ import annotations

from orchestai.evaluation.tables.estimates import Fold, TableEstimates


def estimate(fold: Fold) -> TableEstimates:
    """What each worker scored and cost, test queries included."""
    return TableEstimates(fold.table.score, fold.table.cost_usd)
