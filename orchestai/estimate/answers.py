"""Judging answers that are seen: which one is probably right, whom to ask next, and when to stop.

A judge learns from verdicts how probably each worker is right when it gives an answer of a certain kind to a query of a
certain type. Log odds of workers that say the same are added up. Workers are asked in an order that is learned, until
the likeliest answer is sure enough. What a way decides depends on answers that it has paid for alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import permutations, product
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from orchestai.estimate.attempts import FEWEST, Rows, Values
from orchestai.estimate.calibration import Calibration, logit
from orchestai.estimate.comparators import COMPARATORS, NONE, REFUSED, Comparator, find_comparator


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
        refused: NDArray[np.bool_] | None = None,
    ) -> SeenAnswers:
        """Compare the replies to each query; where there is none, none was given.

        Args:
            refused: (queries, workers) where a check or the end of the tokens speaks against a reply.
        """
        names, types = np.unique(task_types, return_inverse=True)
        kinds = {NONE: 0, REFUSED: 1}
        same, shown = np.zeros((2, len(queries), len(replies[0])), dtype=np.intp)
        for row, (query, own) in enumerate(zip(queries, replies, strict=True)):
            keys: dict[object, int] = {}
            for worker, reply in enumerate(own):
                answer = compare(query, reply or "")
                same[row, worker] = keys.setdefault(answer.key, len(keys))
                fits = refused is None or not refused[row, worker]
                shown[row, worker] = kinds.setdefault(answer.shown if fits else REFUSED, len(kinds))
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
        """Count the verdicts on these queries, NaN where there is none; what is of no known type or kind comes last."""
        shape = (right.shape[1], len(answers.task_types) + 1, len(answers.kinds) + 1)
        places = np.arange(shape[0]), answers.types[:, None], answers.shown * by_kind
        given, good = np.zeros(shape), np.zeros(shape)
        np.add.at(given, places, np.isfinite(right))
        np.add.at(good, places, np.nan_to_num(right))
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
class Way:
    """Ask workers in an order, and after each answer stop or go on, by what the answers so far show.

    Attributes:
        stop: at an answer that `fits`, not of a refused kind; where two `agree`; or where the judge is `sure`.
        refused: kinds that do not fit.
        judge: says how probably answers are right; None: nobody knows, unless it is `sure`.
        threshold: of the judge's probability.
    """

    order: Rows
    stop: Literal["fits", "agree", "sure"] = "fits"
    refused: tuple[int, ...] = ()
    judge: Judge | None = None
    threshold: float = 0.0
    calibration: Calibration = field(default_factory=Calibration)

    def step(
        self, answers: SeenAnswers, asked: Rows, votes: Values | None = None
    ) -> tuple[Rows, NDArray[np.bool_], Values]:
        """What is decided after these workers' answers: (queries,) each.

        Args:
            asked: in the order in which they were; what the others say is not looked at.
            votes: the judge's, if they are at hand.

        Returns:
            The place among `asked` of the answer that is given, whether to stop, and how probably it is right.
        """
        same, rows = answers.same[:, asked], np.arange(len(answers.same))
        place, probability = np.zeros(len(rows), dtype=np.intp), np.full(len(rows), np.nan)
        chances = np.zeros(same.shape)
        if self.judge is not None:
            votes = (self.judge.votes(answers) if votes is None else votes)[:, asked]
            chances = _posterior(same, votes)
        if self.stop == "sure":
            assert votes is not None
            place, done = (chances + 1e-9 * votes).argmax(axis=1), chances.max(axis=1) >= self.threshold
        elif self.stop == "agree":
            place = (same == same[:, -1:]).argmax(axis=1)
            done = place < same.shape[1] - 1
            place = np.where(done, place, 0)
        else:
            fits = ~np.isin(answers.shown[:, asked], self.refused)
            place, done = fits.argmax(axis=1), fits.any(axis=1)
        if self.judge is not None:
            probability = self.calibration.apply(chances[rows, place])
        return place, done, probability

    def decide(self, answers: SeenAnswers, votes: Values | None = None) -> Decisions:
        """What is decided of each query in the end."""
        worker, asked = np.zeros(len(answers.same), dtype=np.intp), np.zeros(answers.same.shape, dtype=bool)
        probability, going = np.full(len(worker), np.nan), np.arange(len(worker))
        if votes is None and self.judge is not None:
            votes = self.judge.votes(answers)
        for count in range(1, len(self.order) + 1):
            own = None if votes is None else votes[going]
            place, done, probability[going] = self.step(answers.take(going), self.order[:count], own)
            asked[going, self.order[count - 1]], worker[going] = True, self.order[place]
            if not (going := going[~done]).size:
                break
        return Decisions(worker, asked, probability)


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
    refused = tuple(place for place, kind in enumerate(answers.kinds) if kind in (NONE, REFUSED))
    for chain in (np.array(one) for length in (2, 3) for one in permutations(able, length)):
        yield Way(chain, refused=refused)
        if len(chain) == 3:
            yield Way(chain, "agree")


def judged_ways(
    answers: SeenAnswers, verdicts: Verdicts, most_usd: float, start: Sequence[int] = ()
) -> Iterator[Choice]:
    """Judges with orders and thresholds that a budget suggests, each verdict left out of its own count.

    One of the orders begins with `start`.
    """
    for judge in (Judge.learn(answers, verdicts.right, by_kind=by_kind) for by_kind in (True, False)):
        votes = judge.votes(answers, verdicts.right)
        for share, first in (*((share, ()) for share in _PRICES), (_PRICES[1], tuple(start))):
            order = learn_order(answers.same, votes, verdicts, most_usd, share, first)
            for length, threshold in product(_LENGTHS, _THRESHOLDS):
                if length <= len(order) or length == _LENGTHS[0]:
                    way = Way(order[:length], "sure", judge=judge, threshold=threshold)
                    decided = way.decide(answers, votes)
                    yield Choice(way, *decided.outcome(verdicts), decided.probability)


def learn_judged(answers: SeenAnswers, verdicts: Verdicts, most_usd: float, start: Sequence[int] = ()) -> Choice | None:
    """Of `judged_ways` the one of most success within the budget."""
    if (best := best_of(judged_ways(answers, verdicts, most_usd, start), most_usd)) is None:
        return None
    return replace(best, way=replace(best.way, calibration=Calibration.of(best.probability, best.success)))


def guarded(judged: Choice | None, fixed: Choice) -> Choice:
    """The judged way where it was paired a standard error above the best fixed one, else that."""
    if judged is None:
        return fixed
    gain = judged.success - fixed.success
    return judged if gain.mean() > gain.std() / np.sqrt(len(gain)) else fixed


@dataclass(frozen=True, eq=False)
class AnswerJudge:
    """Ways of asking a pool for whole tasks, of which no other is cheaper and as often right.

    Attributes:
        comparator: see `find_comparator`.
        kinds, task_types: of the answers that were learned from.
        ways: by ascending price, with the pool's workers by index.
        success: (ways,) share of right answers, each verdict left out of its own count.
        asked: (ways, workers) share of the queries for which each was asked.
        usual: the way of most success that costs no more than the best single worker.
    """

    comparator: str
    kinds: tuple[str, ...]
    task_types: tuple[str, ...]
    ways: tuple[Way, ...]
    success: Values
    asked: Values
    usual: int

    def decide(
        self, way: int, query: str, task_type: str, replies: Sequence[tuple[int, str, bool]]
    ) -> tuple[int, bool, float]:
        """The place of the reply that stands, whether to stop, and how probably it is right.

        Args:
            replies: so far: the worker, what it said, and whether something speaks against it.
        """
        compare, keys = find_comparator(self.comparator), dict[object, int]()
        same, shown = np.zeros((2, 1, self.asked.shape[1]), dtype=np.intp)
        for worker, reply, refused in replies:
            answer = compare(query, reply)
            same[0, worker] = keys.setdefault(answer.key, len(keys))
            shown[0, worker] = _place(REFUSED if refused else answer.shown, self.kinds)
        answers = SeenAnswers(same, shown, np.array([_place(task_type, self.task_types)]), self.kinds, self.task_types)
        place, done, probability = self.ways[way].step(answers, np.array([worker for worker, *_ in replies]))
        return int(place[0]), bool(done[0]), float(probability[0])


def _place(name: str, names: Sequence[str]) -> int:
    return names.index(name) if name in names else len(names)


def fit_answer_judge(
    queries: Sequence[str],
    task_types: Sequence[str],
    replies: Sequence[Sequence[str | None]],
    verdicts: Verdicts,
    refused: NDArray[np.bool_] | None = None,
) -> AnswerJudge | None:
    """Learn from all verdicts whom to ask for whole tasks, when to stop, and whose answer to give.

    Ways are compared on the queries of which all of the workers that were asked most have a verdict, as many workers as
    have twenty such queries; None where no two have. The comparator is the one by which verdicts are likeliest.

    Args:
        verdicts: NaN where nobody judged or measured.
        refused: see `SeenAnswers.of`.
    """
    known = np.isfinite(verdicts.right)
    often = np.argsort(-known.sum(axis=0), kind="stable")
    counts = [c for c in range(2, len(often) + 1) if known[:, often[:c]].all(axis=1).sum() >= FEWEST]
    if not counts:
        return None
    able = np.sort(often[: counts[-1]])
    rows = np.flatnonzero(known[:, able].all(axis=1))
    right, cost = verdicts.right[:, able], verdicts.cost_usd[:, able]
    cost = np.where(np.isnan(cost), np.nanmean(cost) if np.isfinite(cost).any() else 0.0, cost)
    own = [[reply[worker] for worker in able.tolist()] for reply in replies]
    comparator, seen = compare_replies(
        queries, task_types, own, right, rows, None if refused is None else refused[:, able]
    )
    judge = Judge.learn(seen, right)
    answers, truth = seen.take(rows), Verdicts(right[rows], cost[rows])
    found, best = _choices(answers, truth, judge.votes(answers, truth.right), judge)
    kept: list[Choice] = []
    for one in sorted(found, key=lambda one: (one.cost_usd.mean(), -one.success.mean())):
        if not kept or one.success.mean() > kept[-1].success.mean():
            kept.append(one)
    usual = best_of(iter(kept), float(best.cost_usd.mean()))
    width, ways, asked = verdicts.right.shape[1], list[Way](), np.zeros((len(kept), verdicts.right.shape[1]))
    for place, one in enumerate(kept):
        asked[place, able] = one.way.decide(answers).asked.mean(axis=0)
        counts_of = one.way.judge or judge
        given, good = np.zeros((2, width, *counts_of.given.shape[1:]))
        given[able], good[able] = counts_of.given, counts_of.right
        ways.append(replace(one.way, order=able[one.way.order], judge=Judge(given, good, counts_of.by_kind)))
    success = np.array([one.success.mean() for one in kept])
    return AnswerJudge(
        comparator, seen.kinds, seen.task_types, tuple(ways), success, asked, kept.index(usual) if usual else 0
    )


def compare_replies(
    queries: Sequence[str],
    task_types: Sequence[str],
    replies: Sequence[Sequence[str | None]],
    right: Values,
    rows: Rows,
    refused: NDArray[np.bool_] | None = None,
) -> tuple[str, SeenAnswers]:
    """The comparator by which the verdicts on some queries, `rows`, are likeliest, and what is seen by it."""
    best, least = None, np.inf
    for name in COMPARATORS:
        seen = SeenAnswers.of(queries, task_types, replies, find_comparator(name), refused)
        answers = seen.take(rows)
        chances = _posterior(answers.same, Judge.learn(seen, right).votes(answers, right[rows]))
        if (loss := -float(np.log(np.clip(1 - np.abs(right[rows] - chances), 1e-3, 1)).mean())) < least:
            best, least = (name, seen), loss
    assert best is not None
    return best


def _choices(answers: SeenAnswers, verdicts: Verdicts, votes: Values, judge: Judge) -> tuple[list[Choice], Choice]:
    """What is chosen at budgets from the cheapest worker's price to the dearest one's; and the best single worker."""
    singles = list(tried((Way(np.array([worker])) for worker in range(votes.shape[1])), answers, verdicts))
    best, usual = best_of(iter(singles), np.inf), np.maximum(verdicts.cost_usd.mean(axis=0), 1e-9)
    assert best is not None
    found = []
    for budget in [*np.geomspace(usual.min(), usual.max(), _BUDGETS), float(best.cost_usd.mean()) or 1e-9]:
        fixed = tried(fixed_ways(answers, verdicts, budget), answers, verdicts)
        rule = best_of(iter([*singles, *fixed]), budget) or best
        judged = learn_judged(answers, verdicts, budget, rule.way.order.tolist())
        if (choice := guarded(judged, rule)) is rule:
            way = replace(rule.way, judge=judge)
            sure = way.decide(answers, votes).probability
            choice = replace(rule, way=replace(way, calibration=Calibration.of(sure, rule.success)))
        found.append(choice)
    return found, best


_BUDGETS: Final = 5
