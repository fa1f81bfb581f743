"""Judging answers that are seen: which one is probably right, whom to ask next, and when to stop.

A judge learns from verdicts how probably each worker is right when it gives an answer of a certain kind to a query of a
certain type. Log odds of workers that say the same are added up. Workers are asked in an order that is learned, until
the likeliest answer is sure enough. What a way decides depends on answers that it has paid for alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import permutations, product
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from orchestai.estimate.attempts import Rows, Values
from orchestai.estimate.calibration import Calibration, logit
from orchestai.estimate.comparators import NONE, REFUSED, Comparator


@dataclass(frozen=True, eq=False)
class SeenAnswers:
    """What is seen of all workers' answers to some queries.

    Attributes:
        same: (queries, workers) numbers; answers to one query say the same where theirs are equal.
        shown: (queries, workers) places in `kinds`.
        types: (queries,) places in `task_types`.
        kinds, task_types: names.
    """

    same: Rows
    shown: Rows
    types: Rows
    kinds: tuple[str, ...]
    task_types: tuple[str, ...]

    @classmethod
    def of(
        cls,
        queries: Sequence[str],
        task_types: Sequence[str],
        replies: Sequence[Sequence[str | None]],
        compare: Comparator,
    ) -> SeenAnswers:
        """Compare the replies to each query; where there is none, none was given."""
        names, types = np.unique(task_types, return_inverse=True)
        kinds = {NONE: 0}
        same, shown = np.zeros((2, len(queries), len(replies[0])), dtype=np.intp)
        for row, (query, own) in enumerate(zip(queries, replies, strict=True)):
            keys: dict[object, int] = {}
            for worker, reply in enumerate(own):
                answer = compare(query, reply or "")
                same[row, worker] = keys.setdefault(answer.key, len(keys))
                shown[row, worker] = kinds.setdefault(answer.shown, len(kinds))
        return cls(same, shown, types, tuple(kinds), tuple(names.tolist()))

    def take(self, rows: Rows) -> SeenAnswers:
        """Those to some queries, in the order of `rows`."""
        return replace(self, same=self.same[rows], shown=self.shown[rows], types=self.types[rows])


@dataclass(frozen=True, eq=False)
class Verdicts:
    """What came of asking: (queries, workers) whether each answer is right, in 0..1, and what it cost."""

    right: Values
    cost_usd: Values

    def take(self, rows: Rows) -> Verdicts:
        """Those on some queries, in the order of `rows`."""
        return Verdicts(self.right[rows], self.cost_usd[rows])


@dataclass(frozen=True, eq=False)
class Decisions:
    """Whose answer is given to each query, who was asked, (queries, workers), and how probably it is right, or NaN."""

    worker: Rows
    asked: NDArray[np.bool_]
    probability: Values

    def outcome(self, verdicts: Verdicts) -> tuple[Values, Values]:
        """(queries,) success and cost in US dollars."""
        rows = np.arange(len(self.worker))
        return verdicts.right[rows, self.worker], (self.asked * verdicts.cost_usd).sum(axis=1)


def _decisions(order: Rows, place: Rows, count: Rows, workers: int, probability: Values | None = None) -> Decisions:
    """The answer at `place` of the order, (queries,), where its first `count`, (queries,), were asked."""
    asked = np.zeros((len(place), workers), dtype=bool)
    asked[:, order] = np.arange(len(order)) < count[:, None]
    return Decisions(order[place], asked, np.full(len(place), np.nan) if probability is None else probability)


@dataclass(frozen=True, eq=False)
class UntilFit:
    """Ask until an answer is of a kind that is accepted; of one worker, whatever it answers."""

    order: Rows
    refused: frozenset[int] = frozenset()

    def decide(self, answers: SeenAnswers) -> Decisions:
        """The first answer that is accepted, else the first of all."""
        fits = ~np.isin(answers.shown[:, self.order], list(self.refused))
        count = np.where(fits.any(axis=1), fits.argmax(axis=1) + 1, len(self.order))
        return _decisions(self.order, fits.argmax(axis=1), count, answers.same.shape[1])


@dataclass(frozen=True, eq=False)
class UntilTwoAgree:
    """Ask until two say the same."""

    order: Rows

    def decide(self, answers: SeenAnswers) -> Decisions:
        """What the first two say that agree, else the first answer."""
        same = answers.same[:, self.order]
        place, count = np.zeros(len(same), dtype=np.intp), np.full(len(same), len(self.order))
        for last in range(len(self.order) - 1, 0, -1):
            agrees = same[:, :last] == same[:, last : last + 1]
            place = np.where(agrees.any(axis=1), agrees.argmax(axis=1), place)
            count = np.where(agrees.any(axis=1), last + 1, count)
        return _decisions(self.order, place, count, answers.same.shape[1])


_FURTHER: Final = 1.5
"""Log odds that a second worker's answer, if it is wrong, is not the same wrong one."""
_PSEUDO: Final = 3.0
"""Answers that agree with what is known more generally, beside those that were judged."""
_SURE: Final = 0.95
"""Probability from which on an order of workers is not learned to ask further ones."""
_HOLD: Final = 0.6
"""Share of the votes' log odds that counts where an order is learned: workers fail together."""


def _posterior(same: Rows, votes: Values) -> Values:
    """(queries, asked) how probably each answer is right, of which at most one is, or none."""
    equal = same[:, :, None] == same[:, None, :]
    odds = np.exp(np.clip((equal * (votes + _FURTHER)[:, None, :]).sum(axis=2) - _FURTHER, -30, 30))
    return np.asarray(odds / (1 + (odds / equal.sum(axis=2)).sum(axis=1, keepdims=True)))


@dataclass(frozen=True, eq=False)
class Judge:
    """What each worker's answer says: (workers, types, kinds) numbers of answers and of those that were right.

    Attributes:
        by_kind: whether kinds of answers are told apart; else all count as the first.
    """

    given: Values
    right: Values
    by_kind: bool

    @classmethod
    def learn(cls, answers: SeenAnswers, right: Values, *, by_kind: bool = True) -> Judge:
        """Count, of these queries."""
        shape = (right.shape[1], len(answers.task_types), len(answers.kinds))
        places = np.arange(shape[0]), answers.types[:, None], answers.shown * by_kind
        given, good = np.zeros(shape), np.zeros(shape)
        np.add.at(given, places, 1)
        np.add.at(good, places, right)
        return cls(given, good, by_kind)

    def votes(self, answers: SeenAnswers, learned: Values | None = None) -> Values:
        """(queries, workers) log odds that each answer is right.

        Few answers of a worker, type and kind are drawn to what the worker's answers of the kind say, and what all
        workers' of the type and kind do.

        Args:
            learned: (queries, workers) the verdicts, if these queries were learned from: each is left out of its own
                count.
        """
        own = 0.0 if learned is None else 1.0
        right = np.zeros(answers.same.shape) if learned is None else learned
        worker, kind, task_type = np.arange(len(self.given)), answers.shown * self.by_kind, answers.types[:, None]

        def share(axes: tuple[int, ...], drawn_to: Values) -> Values:
            place = tuple(0 if axis in axes else index for axis, index in enumerate((worker, task_type, kind)))
            given, good = (counts.sum(axis=axes, keepdims=True)[place] for counts in (self.given, self.right))
            return np.asarray((good - right + _PSEUDO * drawn_to) / (given - own + _PSEUDO))

        everywhere = share((0, 1, 2), np.full(right.shape, 0.5))
        of_worker = share((1,), share((1, 2), everywhere))
        of_type = share((0,), everywhere)
        expected = logit(of_worker) + logit(of_type) - logit(everywhere)
        return np.clip(logit(share((), 1 / (1 + np.exp(-expected)))), -6, 6)


@dataclass(frozen=True, eq=False)
class Judged:
    """Ask in an order until the judge is sure enough of an answer."""

    judge: Judge
    order: Rows
    threshold: float
    calibration: Calibration = field(default_factory=Calibration)

    def decide(self, answers: SeenAnswers, votes: Values | None = None) -> Decisions:
        """The likeliest answer of those asked for; `votes` are the judge's, if they are at hand."""
        same = answers.same[:, self.order]
        votes = (self.judge.votes(answers) if votes is None else votes)[:, self.order]
        place, count = np.zeros((2, len(same)), dtype=np.intp)
        probability = np.zeros(len(same))
        for asked in range(1, len(self.order) + 1):
            going = probability < self.threshold
            chances = _posterior(same[going, :asked], votes[going, :asked])
            likeliest = (chances + 1e-9 * votes[going, :asked]).argmax(axis=1)
            place[going], count[going], probability[going] = likeliest, asked, chances.max(axis=1)
        return _decisions(self.order, place, count, answers.same.shape[1], self.calibration.apply(probability))


def learn_order(
    same: Rows, votes: Values, verdicts: Verdicts, most_usd: float, share: float, start: Sequence[int] = ()
) -> Rows:
    """Add one worker after the other: of the highest log probability of right answers, less its price.

    Args:
        votes: of verdicts that are left out of their own counts.
        most_usd: what a query may cost on average, which is worth `share` of log probability. It is paid where no
            answer is sure yet.
        start: the first workers; without any it is one within the budget.
    """
    price, usual = share / most_usd, verdicts.cost_usd.mean(axis=0)
    start = start or [worker for worker in [int(usual.argmin())] if usual[worker] > most_usd]
    queries, count = np.arange(len(same)), min(max(_LENGTHS), same.shape[1])
    sums = np.full((len(same), same.max() + 1), -np.inf)
    total, right, likeliest = np.ones(len(same)), np.zeros(len(same)), np.zeros(len(same))
    order: list[int] = []
    while len(order) < count:
        unsure, steps = likeliest / total < _SURE, dict[int, tuple[float, Values, Values, Values]]()
        able = np.flatnonzero(usual <= (np.inf if order else most_usd))
        for worker in start[len(order) : len(order) + 1] or np.setdiff1d(able, order).tolist():
            before = sums[queries, same[:, worker]]
            after = np.where(unsure, np.where(np.isfinite(before), before + _FURTHER, 0) + votes[:, worker], before)
            odds, more = np.exp(_HOLD * after), np.exp(_HOLD * after) - np.exp(_HOLD * before)
            chance = (right + more * verdicts.right[:, worker]) / (total + more)
            value = np.log(np.clip(chance, 0.01, 0.99)).mean() - price * (verdicts.cost_usd[:, worker] * unsure).mean()
            steps[worker] = value, after, odds, more
        worker = max(steps, key=lambda one: steps[one][0])
        _, sums[queries, same[:, worker]], odds, more = steps[worker]
        right, total = right + more * verdicts.right[:, worker], total + more
        likeliest = np.maximum(likeliest, odds)
        order.append(worker)
    return np.array(order)


Way: TypeAlias = UntilFit | UntilTwoAgree | Judged
_PRICES: Final = (0.02, 0.06, 0.2)
"""Log probability that the whole budget is worth, where an order of workers is learned."""
_THRESHOLDS: Final = (0.5, 0.7, 0.8, 0.9, 0.95, 0.97, 0.98, 0.99, 0.995, 0.999)
_LENGTHS: Final = (2, 3, 4, 6, 9, 12)


@dataclass(frozen=True, eq=False)
class Choice:
    """A way, what it scored and cost on the queries that it was chosen on, (queries,), and how sure it was."""

    way: Way
    success: Values
    cost_usd: Values
    probability: Values


def best_of(choices: Iterator[Choice], most_usd: float) -> Choice | None:
    """The choice of most success at no more than a mean cost, of equals the cheapest."""
    cheap = [one for one in choices if one.cost_usd.mean() <= most_usd * (1 + 1e-9)]
    return max(cheap, key=lambda one: (one.success.mean(), -one.cost_usd.mean()), default=None)


def tried(ways: Iterator[Way], answers: SeenAnswers, verdicts: Verdicts) -> Iterator[Choice]:
    """Each way with what it scores on these queries."""
    for way, decided in ((way, way.decide(answers)) for way in ways):
        yield Choice(way, *decided.outcome(verdicts), decided.probability)


def fixed_ways(answers: SeenAnswers, verdicts: Verdicts, most_usd: float) -> Iterator[Way]:
    """Sequences of up to three of the ten best workers within the budget, until one answer fits or two agree."""
    success, cost = verdicts.right.mean(axis=0), verdicts.cost_usd.mean(axis=0)
    able = [worker for worker in np.argsort(-success, kind="stable") if cost[worker] <= most_usd][:10]
    refused = frozenset(place for place, kind in enumerate(answers.kinds) if kind in (NONE, REFUSED))
    for chain in (np.array(one) for length in (2, 3) for one in permutations(able, length)):
        yield UntilFit(chain, refused)
        if len(chain) == 3:
            yield UntilTwoAgree(chain)


def learn_judged(answers: SeenAnswers, verdicts: Verdicts, most_usd: float, start: Sequence[int] = ()) -> Choice | None:
    """The judge, its order and threshold of most success within the budget, each verdict left out of its own count.

    One of the orders begins with `start`.
    """
    found: list[Choice] = []
    for judge in (Judge.learn(answers, verdicts.right, by_kind=by_kind) for by_kind in (True, False)):
        votes = judge.votes(answers, verdicts.right)
        for share, first in (*((share, ()) for share in _PRICES), (_PRICES[1], tuple(start))):
            order = learn_order(answers.same, votes, verdicts, most_usd, share, first)
            for length, threshold in product(_LENGTHS, _THRESHOLDS):
                way = Judged(judge, order[:length], threshold)
                decided = way.decide(answers, votes)
                found.append(Choice(way, *decided.outcome(verdicts), decided.probability))
    if (best := best_of(iter(found), most_usd)) is None:
        return None
    assert isinstance(best.way, Judged)
    return replace(best, way=replace(best.way, calibration=Calibration.of(best.probability, best.success)))


def guarded(judged: Choice | None, fixed: Choice) -> Choice:
    """The judged way where it was paired a standard error above the best fixed one, else that."""
    if judged is None:
        return fixed
    gain = judged.success - fixed.success
    return judged if gain.mean() > gain.std() / np.sqrt(len(gain)) else fixed
