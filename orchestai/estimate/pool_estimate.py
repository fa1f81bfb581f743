"""What a pool's workers will probably achieve and take on a subtask, learned from all logged attempts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
from numpy.typing import NDArray

from orchestai.estimate.answers import AnswerJudge
from orchestai.estimate.attempts import FEWEST, WHOLE, Attempts, Queries, Rows, StepAttempts, Values, price_cards
from orchestai.estimate.calibration import Calibration
from orchestai.estimate.plan_options import StepEstimate
from orchestai.estimate.spending import SpendingEstimate
from orchestai.estimate.success import SuccessEstimate, fit_success

_STRENGTHS: Final = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
_WIDTHS: Final = (0.0, 0.01, 0.03, 0.1)
_MOST_ROWS = 3000
"""Subtasks by which strength and width are chosen; of more, so many drawn at random."""


@dataclass(frozen=True, eq=False)
class Kernel:
    """How much what was seen of one subtask says of another, and how much beside what was expected.

    Attributes:
        width: of the distance 1 - cosine of embeddings at which an attempt counts as 1/e; 0: the same subtask alone.
        strength: attempts that the expectation counts as.
    """

    width: float
    strength: float

    def weights(self, queries: NDArray[np.floating], known: NDArray[np.floating]) -> Values:
        """(queries, known) how much each counts.

        Args:
            queries, known: (n, width) unit vectors.
        """
        distance = np.maximum(1 - queries @ known.T, 0.0)
        near = distance < 1e-5
        if self.width == 0:
            return near.astype(np.float64)
        return np.where(near, 1.0, np.exp(-distance / self.width))

    def blend(self, expected: Values, tried: Values, won: Values) -> Values:
        """The expectation after so many attempts, of which so many were won."""
        return np.asarray((self.strength * expected + won) / (self.strength + tried))


def choose_kernel(
    embeddings: NDArray[np.floating], expected: Values, folds: Sequence[tuple[Values, Values]], seed: int
) -> Kernel:
    """The kernel under which attempts held out are likeliest.

    Args:
        embeddings: (subtasks, width) unit vectors.
        expected: (subtasks, columns) probabilities without any attempt at the subtask itself.
        folds: parts of all attempts, as (subtasks, columns) tried and won.
        seed: of the subtasks that are drawn where there are too many.
    """
    rows: Rows = np.arange(len(embeddings))
    if len(rows) > _MOST_ROWS:
        rows = np.sort(np.random.default_rng(seed).choice(rows, _MOST_ROWS, replace=False))
    parts = [(tried[rows], won[rows]) for tried, won in folds]
    tried, won = sum(part[0] for part in parts), sum(part[1] for part in parts)
    best, least = Kernel(0.0, _STRENGTHS[-1]), np.inf
    for width in _WIDTHS:
        weights = Kernel(width, 1.0).weights(embeddings[rows], embeddings[rows])
        near = [
            (own_tried, own_won, weights @ (tried - own_tried), weights @ (won - own_won))
            for own_tried, own_won in parts
        ]
        for strength in _STRENGTHS:
            kernel = Kernel(width, strength)
            loss = 0.0
            for own_tried, own_won, near_tried, near_won in near:
                chance = np.clip(kernel.blend(expected[rows], near_tried, near_won), 1e-4, 1 - 1e-4)
                loss -= float((own_won * np.log(chance) + (own_tried - own_won) * np.log1p(-chance)).sum())
            if loss < least:
                best, least = kernel, loss
    return best


_NEIGHBORS = 10
_FOLDS = 5
_SPENDING_STRENGTH = 2.0
"""Attempts that expected costs and times count as beside those that were measured on the same subtask."""


@dataclass(frozen=True, eq=False)
class PoolEstimate:
    """A fitted estimate. Columns are workers; of `tried` and `won`, first passing a check, then being right.

    Attributes:
        success: what words and type say.
        spending: of US dollars, seconds and tokens.
        kernel: by which attempts at similar subtasks count.
        known: texts, types and embeddings of the subtasks that were attempted.
        tried, won: (subtasks, 2 * workers), see `StepAttempts.counts`.
        asked: (subtasks, workers) how often each was asked.
        spent: (3, subtasks, workers) what that took in all; what nobody measured counts as what is expected.
        before, after: corrections of a plan's probability, before anybody is asked, and when it is known who answered.
        whole_usd: (workers, 2) US dollars that one of twenty requests for a whole task cost less than, and one more
            than; NaN where nobody measured.
        typical_usd, typical_seconds: what an execution took, the median of those that took something; 0 where none did.
        kinds: (subtasks,) or nothing: what sort of request each is, beside its type, for `success` and `spending`; of
            another request it is told by those that say nearly the same.
        judge: of answers to whole tasks; None where too few were judged.
    """

    workers: tuple[str, ...]
    success: SuccessEstimate
    spending: tuple[SpendingEstimate, ...]
    kernel: Kernel
    known: Queries
    tried: Values
    won: Values
    asked: Values
    spent: Values
    before: Calibration
    after: Calibration
    whole_usd: Values
    typical_usd: float
    typical_seconds: float
    kinds: tuple[str, ...]
    judge: AnswerJudge | None = None

    def attempts_at(self, task_type: str) -> Values:
        """(workers,) how often each was asked for a subtask of a type."""
        return np.asarray(self.asked[[one == task_type for one in self.known.task_types]].sum(axis=0))

    @property
    def measured(self) -> tuple[bool, ...]:
        """Of US dollars, seconds and tokens, whether anything is known."""
        return tuple(bool(np.isfinite(estimate.means).any()) for estimate in self.spending)

    def steps(self, queries: Queries, tried: Values | None = None, won: Values | None = None) -> list[StepEstimate]:
        """What is expected of each query's workers, by all attempts or by those of (subtasks, 2 * workers) alone."""
        tried, won = (self.tried, self.won) if tried is None or won is None else (tried, won)
        count = len(self.workers)
        weights = self.kernel.weights(queries.embeddings, self.known.embeddings)
        weights = weights * (np.array(queries.task_types)[:, None] == np.array(self.known.task_types))
        sorted_out = self.by_kind(queries)
        chances = self.kernel.blend(self.success.success(sorted_out), weights @ tried, weights @ won)
        asked = weights @ self.asked
        usual = (np.nan_to_num(estimate.expected(sorted_out)) for estimate in self.spending)
        taken = np.array(
            [
                (_SPENDING_STRENGTH * expected_taken + weights @ total) / (_SPENDING_STRENGTH + asked)
                for expected_taken, total in zip(usual, self.spent, strict=True)
            ]
        )
        return [StepEstimate(chances[row, :count], chances[row, count:], taken[:, row]) for row in range(len(queries))]

    def by_kind(self, queries: Queries) -> Queries:
        """The queries with the kinds of those that are nearest to each in place of their types."""
        if not self.kinds:
            return queries
        return replace(queries, task_types=kinds_of(queries.embeddings, self.known.embeddings, self.kinds))


def kinds_of(
    embeddings: NDArray[np.floating], known: NDArray[np.floating], kinds: Sequence[str], groups: Rows | None = None
) -> tuple[str, ...]:
    """What sort of request each is, by the ten known ones that are nearest to it.

    Args:
        groups: (n,) where both are the same requests: none is told by those of its own group.
    """
    near = embeddings @ known.T
    if groups is not None:
        near[groups[:, None] == groups] = -np.inf
    nearest = np.argsort(-near, axis=1, kind="stable")[:, :_NEIGHBORS]
    return tuple(Counter(kinds[row] for row in rows).most_common(1)[0][0] for rows in nearest.tolist())


def fit_pool_estimate(
    attempts: StepAttempts,
    embeddings: NDArray[np.floating],
    *,
    seed: int = 0,
    kinds: Sequence[str] = (),
    folds: NDArray[np.int_] | None = None,
) -> PoolEstimate | None:
    """Learn from logged attempts; None where there are too few.

    Args:
        embeddings: (subtasks, width) unit vectors of the texts.
        seed: of the folds.
        kinds: (subtasks,) what sort of request each is, where the source knows more of whole tasks than their type.
        folds: (executions,) below five, those that are held out together; None draws them.
    """
    if len(attempts.succeeded) < FEWEST:
        return None
    known = Queries(attempts.texts, attempts.task_types, embeddings.astype(np.float32))
    queries = replace(known, task_types=tuple(kinds)) if kinds else known
    tried, won = attempts.counts()
    with np.errstate(invalid="ignore", divide="ignore"):
        score = won / tried
    cards = price_cards(attempts.prices)
    fitted = fit_success(Attempts(queries, score, np.vstack([cards, cards]), attempts.groups), seed=seed)
    asked, means = attempts.spent()
    typical = np.where(attempts.prices > 0, attempts.prices, np.nan), *2 * [np.full(len(attempts.workers), np.nan)]
    spending = tuple(
        replace(SpendingEstimate.fit(queries, mean, usual), traits=fitted.estimate.traits)
        for mean, usual in zip(means, typical, strict=True)
    )
    usual = np.stack([np.nan_to_num(estimate.expected(queries)) for estimate in spending])
    spent = asked * np.where(np.isfinite(means), means, usual)
    fold_of = np.random.default_rng(seed).integers(_FOLDS, size=len(attempts.succeeded)) if folds is None else folds
    parts = [attempts.counts(fold_of[attempts.execution] == fold) for fold in range(_FOLDS)]
    estimate = PoolEstimate(
        attempts.workers,
        fitted.estimate,
        spending,
        choose_kernel(queries.embeddings, fitted.held_out, parts, seed),
        known,
        tried,
        won,
        asked,
        spent,
        Calibration(),
        Calibration(),
        _whole_usd(attempts),
        _typical(attempts.spent_usd),
        _typical(attempts.seconds),
        tuple(kinds),
    )
    return _calibrated(estimate, attempts, parts, fold_of)


def _calibrated(
    estimate: PoolEstimate, attempts: StepAttempts, folds: Sequence[tuple[Values, Values]], fold_of: NDArray[np.int_]
) -> PoolEstimate:
    """Correct the probabilities of plans by executions whose attempts were held out."""
    before, after = np.zeros(len(fold_of)), np.zeros(len(fold_of))
    answered: dict[tuple[int, int], int] = {}
    for place in np.flatnonzero(attempts.passed).tolist():
        key = int(attempts.execution[place]), int(attempts.row[place])
        answered.setdefault(key, int(attempts.worker[place]))
    for fold, (tried, won) in enumerate(folds):
        steps = estimate.steps(estimate.known, estimate.tried - tried, estimate.won - won)
        for number in np.flatnonzero(fold_of == fold).tolist():
            planned = attempts.planned[number]
            before[number] = np.prod([steps[row].asking(order)[0] for row, order in planned])
            who = [(row, answered.get((number, row))) for row, _ in planned]
            after[number] = np.prod([0.0 if worker is None else steps[row].right[worker] for row, worker in who])
    known = after > 0
    return replace(
        estimate,
        before=Calibration.of(before, attempts.succeeded),
        after=Calibration.of(after[known], attempts.succeeded[known]),
    )


def _whole_usd(attempts: StepAttempts) -> Values:
    usd = np.full((len(attempts.workers), 2), np.nan)
    whole = np.array([task_type == WHOLE for task_type in attempts.task_types])[attempts.row]
    for worker in np.unique(attempts.worker[whole]):
        own = attempts.spending[whole & (attempts.worker == worker), 0]
        if np.isfinite(own).any():
            usd[worker] = np.nanquantile(own, (0.05, 0.95))
    return usd


def _typical(spent: Values) -> float:
    """The median of what took something: half of a pool may be free."""
    some = spent[spent > 0]
    return float(np.median(some)) if some.size else 0.0
