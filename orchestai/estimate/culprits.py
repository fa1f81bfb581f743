"""Which attempts were right, inferred from executions whose failures name no culprit."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from orchestai.estimate.attempts import Values

_ITERATIONS = 50


def infer_right(
    *,
    cell: NDArray[np.int_],
    execution: NDArray[np.int_],
    suspect: NDArray[np.bool_],
    succeeded: NDArray[np.bool_],
    complete: NDArray[np.bool_],
    usual: Values | float = 0.5,
    imagined: float = 2.0,
) -> Values:
    """(attempts,) probability that each attempt was right, by expectation maximization of a noisy AND.

    The model: an attempt of a cell (say, of a worker and type) is right with the cell's own probability q, and an
    execution succeeds if and only if every subtask has a right answer. So where one failed, an answer of cell c is
    right with probability (q_c - P) / (1 - P), P being the product of q over the execution's answers; where a subtask
    is known to have none (not `complete`), the failure is explained and says nothing about the others (P = 0).

    Args:
        cell: (attempts,) index of the cell.
        execution: (attempts,) index of the execution.
        suspect: (attempts,) whether the attempt may have been right.
        succeeded: (executions,) whether the answer has the full score.
        complete: (executions,) whether every subtask has an attempt that may have been right.
        usual: (cells,) share of right attempts that is expected of a cell before any is seen.
        imagined: attempts that this counts as.
    """
    tried = np.bincount(cell)
    known = suspect & succeeded[execution]
    open_ = suspect & ~succeeded[execution]
    right = np.where(known, 1.0, np.where(open_, 0.5, 0.0))
    for _ in range(_ITERATIONS):
        rates = (np.bincount(cell, right) + imagined * np.asarray(usual)) / (tried + imagined)
        rate = rates[cell]
        logs = np.bincount(execution[suspect], np.log(np.maximum(rate[suspect], 1e-9)), minlength=len(succeeded))
        product = np.where(complete, np.exp(logs), 0.0)[execution]
        right = np.where(open_, np.maximum(rate - product, 0.0) / np.maximum(1 - product, 1e-9), right)
    return right
