"""How probably each answer of a failed execution was right, where no check tells: all executions together say so."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize
from scipy.sparse import csr_matrix, hstack
from scipy.special import expit
from sklearn.feature_extraction.text import TfidfVectorizer

Values: TypeAlias = NDArray[np.float64]
Indices: TypeAlias = NDArray[np.int_]
_ITERATIONS = 50
_FOLDS = 3
_IMAGINED: Final = (0.5, 2.0, 8.0, 32.0)
"""Attempts at a subtask that what words and type make expect of a worker may count as."""
_VARIANCE = 10.0
"""Of a weight, a priori, in log odds."""
_FEWEST_TEXTS, _MOST_WORDS = 2, 1000
"""Words of fewer subtasks say nothing of others; of more words, the commonest are read."""


def infer_right(
    *,
    cell: Indices,
    execution: Indices,
    succeeded: NDArray[np.bool_],
    usual: Values,
    imagined: float,
) -> Values:
    """(attempts,) probability that each attempt was right, by expectation maximization of a noisy AND.

    The model: an attempt of a cell (say, of a worker and subtask) is right with the cell's own probability q, and an
    execution succeeds if and only if every subtask has a right answer. So where one failed, an answer of cell c is
    right with probability (q_c - P) / (1 - P), P being the product of q over the execution's answers.

    Args:
        cell: (attempts,) index of the cell.
        execution: (attempts,) index of the execution.
        succeeded: (executions,) whether the answer has the full score.
        usual: (cells,) share of right attempts that is expected of a cell before any is seen.
        imagined: attempts that this counts as.
    """
    known = succeeded[execution]
    right = np.where(known, 1.0, 0.5)
    for _ in range(_ITERATIONS):
        rate = _rates(cell, right, usual, imagined)[cell]
        product = np.exp(_log_success(rate, execution, len(succeeded)))[execution]
        right = np.where(known, 1.0, np.maximum(rate - product, 0.0) / np.maximum(1 - product, 1e-9))
    return right


def _rates(cell: Indices, right: Values, usual: Values, imagined: float) -> Values:
    """(cells,) share of right attempts."""
    tried, won = np.bincount(cell, minlength=len(usual)), np.bincount(cell, right, minlength=len(usual))
    return np.asarray((won + imagined * usual) / (tried + imagined))


def _log_success(rate: Values, execution: Indices, count: int) -> Values:
    """(executions,) the logarithm of the probability that all attempts are right."""
    return np.asarray(np.bincount(execution, np.log(np.maximum(rate, 1e-9)), minlength=count))


def credit_steps(
    texts: Sequence[str],
    types: Sequence[str],
    *,
    execution: Indices,
    row: Indices,
    worker: Indices,
    succeeded: NDArray[np.bool_],
) -> Values:
    """(attempts,) probability that each attempt was right: by words and type, and a worker's record on the subtask.

    How much its record counts is chosen by the likelihood of executions held out. `texts` and `types` are of
    subtasks, the rest of attempts, but for `succeeded`, which is of executions.
    """
    _, first, cell = np.unique(worker * len(texts) + row, return_index=True, return_inverse=True)
    fold = np.random.default_rng(0).integers(_FOLDS, size=len(succeeded))[execution]
    features = _features(texts, types)

    def usual(kept: NDArray[np.bool_]) -> Values:
        learned = execution[kept], row[kept], worker[kept]
        return _rates_by_words(features, *learned, succeeded, int(worker.max()) + 1)[row[first], worker[first]]

    parts = [(fold != number, usual(fold != number)) for number in range(_FOLDS)]

    def surprise(imagined: float) -> float:
        logs = np.zeros(len(succeeded))
        for kept, expected in parts:
            learned, said = cell[kept], execution[kept]
            right = infer_right(cell=learned, execution=said, succeeded=succeeded, usual=expected, imagined=imagined)
            rate = _rates(learned, right, expected, imagined)[cell[~kept]]
            logs += _log_success(rate, execution[~kept], len(succeeded))
        failing = np.log(np.maximum(-np.expm1(logs), 1e-9))
        return -float(np.where(succeeded, logs, failing).sum())

    imagined = min(_IMAGINED, key=surprise)
    return infer_right(cell=cell, execution=execution, succeeded=succeeded, usual=usual(fold >= 0), imagined=imagined)


def _features(texts: Sequence[str], types: Sequence[str]) -> csr_matrix:
    """(subtasks, features) types and words."""
    kinds = csr_matrix(np.array(types)[:, None] == np.array(sorted(set(types))), dtype=np.float64)
    reader = TfidfVectorizer(min_df=_FEWEST_TEXTS, max_features=_MOST_WORDS, token_pattern=r"\w+")
    with suppress(ValueError):  # no two have a word in common
        return hstack([kinds, reader.fit_transform(texts)]).tocsr()
    return kinds


def _rates_by_words(
    features: csr_matrix,
    execution: Indices,
    row: Indices,
    worker: Indices,
    succeeded: NDArray[np.bool_],
    workers: int,
) -> Values:
    """(subtasks, workers) probability of a right answer by the subtask's features: the most likely one.

    The model is that of `infer_right`, where a worker's log odds are linear in the features. A type says little of who
    is right where a pool's types are few, and most texts occur once.
    """
    shape, known = (workers, features.shape[1]), succeeded[execution]

    def rates(flat: Values) -> Values:
        return np.asarray(expit(features @ flat.reshape(shape).T))

    def loss(flat: Values) -> tuple[float, Values]:
        rate = rates(flat)[row, worker]
        logs = _log_success(rate, execution, len(succeeded))
        failing = np.maximum(-np.expm1(logs), 1e-9)
        surprise = -np.where(succeeded, logs, np.log(failing)).sum() + (flat**2).sum() / (2 * _VARIANCE)
        right = np.where(known, 1.0, np.maximum(rate - np.exp(logs)[execution], 0.0) / failing[execution])
        residuals = csr_matrix((right - rate, (worker, row)), (workers, features.shape[0]))
        return float(surprise), flat / _VARIANCE - (residuals @ features).toarray().ravel()

    return rates(minimize(loss, np.zeros(shape[0] * shape[1]), jac=True, method="L-BFGS-B").x)
