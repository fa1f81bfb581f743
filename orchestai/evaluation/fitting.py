"""What to serve of a pool: the choice that verdicts on whole tasks bear out, and what they say of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from orchestai.estimate.answers import (
    AnswerJudge,
    Choice,
    Judge,
    SeenAnswers,
    Verdicts,
    Way,
    best_of,
    fixed_ways,
    judged_ways,
)
from orchestai.estimate.attempts import Rows, Values
from orchestai.estimate.calibration import Calibration
from orchestai.estimate.success import group_folds
from orchestai.evaluation.statistics import Interval, bootstrap_mean, proportion
from orchestai.evaluation.tables.estimates import Features
from orchestai.execution.record import ExecutionRecord
from orchestai.planner.forecast import nearest_workers
from orchestai.tasks.task import Task

FEWEST_TO_LEARN: Final = 12
"""Tasks with verdicts of all workers; below, only the best single worker can be told."""
FEWEST_FOR_CASCADES: Final = 100
"""Below as many verdicts, the fixed cascade that was best among hundreds was so by chance."""
_DRAWN: Final = 60.0
"""Verdicts that a judge's own probability counts as, where ways of asking are compared."""
_SHARES: Final = (1.0, 0.5)
"""Of what the best single worker costs: budgets for which orders of workers are learned."""
_ERRORS: Final = 1.5
"""Standard errors by which a candidate has to be above the best single worker."""


@dataclass(frozen=True, eq=False)
class Selection:
    """What is served, chosen on some queries with verdicts of all workers.

    Attributes:
        kind: the best single worker, a fixed cascade, several asked until a judge is sure, or the worker that did best
            on the nearest tasks.
        best: the best single worker.
        choice: whom it asks and what that gave on these queries, each verdict left out where its own query was decided;
            the way is the best single worker's where `kind` is nearest.
    """

    kind: str
    best: Choice
    choice: Choice

    @property
    def worker(self) -> int:
        """The best single one."""
        return int(self.best.way.order[0])

    @property
    def worth(self) -> Values:
        """Success drawn to the judge's own probability, or the best single worker's, as if seen on sixty queries."""
        count, alone = len(self.choice.success), Selection(SINGLE, self.best, self.best)
        drawn_to = alone.worth if self.kind == NEAREST else self.choice.probability
        return np.asarray((count * self.choice.success + _DRAWN * drawn_to) / (count + _DRAWN))


SINGLE, CASCADE, JUDGED, NEAREST = "single", "cascade", "judged", "nearest"
Served: TypeAlias = tuple[Values, Values]
"""(queries,) success and US dollars."""


def candidates(
    answers: SeenAnswers, verdicts: Verdicts, features: Features | None = None, *, dearer: bool = False
) -> list[Selection]:
    """What could be served, the best single worker first, by queries of which every worker has a verdict.

    Args:
        features: (queries, width) unit vectors of the queries' texts; without them nobody is chosen by near tasks.
        dearer: also ways that a budget beyond the best single worker's price suggests.
    """
    judge = Judge.learn(answers, verdicts.right)
    votes = judge.votes(answers, verdicts.right)
    singles = [_tried(Way(np.array([one]), judge=judge), answers, verdicts, votes) for one in range(votes.shape[1])]
    best = best_of(iter(singles), np.inf)
    assert best is not None
    count, found = len(best.success), [Selection(SINGLE, best, best)]
    if count < FEWEST_TO_LEARN or len(singles) == 1:
        return found
    budgets = [max(share * float(best.cost_usd.mean()), 1e-9) for share in _SHARES]
    if dearer:
        budgets.append(float(np.maximum(verdicts.cost_usd, 1e-9).mean(axis=0).max()))
    for budget in budgets:
        ways = judged_ways(answers, verdicts, budget, best.way.order.tolist())
        found += [Selection(JUDGED, best, one) for one in ways]
    if count >= FEWEST_FOR_CASCADES:
        fixed = (replace(way, judge=judge) for way in fixed_ways(answers, verdicts, max(budgets)))
        found += [Selection(CASCADE, best, _tried(way, answers, verdicts, votes)) for way in fixed]
    if features is not None:
        rows = np.arange(count)
        workers = nearest_workers(features, features, verdicts.right, verdicts.cost_usd, apart=True)
        near = replace(best, success=verdicts.right[rows, workers], cost_usd=verdicts.cost_usd[rows, workers])
        found.append(Selection(NEAREST, best, near))
    return found


def likeliest(found: Sequence[Selection], *, dearer: bool = False) -> Selection:
    """The candidate of most worth, at no more than the best single worker's price unless it may be dearer."""
    best = found[0].best
    able = [one for one in found if dearer or one.choice.cost_usd.mean() <= best.cost_usd.mean() * (1 + 1e-9)]
    return max(able or found[:1], key=lambda one: (one.worth.mean(), -one.choice.cost_usd.mean()))


def pick(found: Sequence[Selection], *, dearer: bool = False) -> Selection:
    """Which of the candidates, the best single worker first, is served.

    With few verdicts, the best of many ways is so by chance: it has to be 1.5 standard errors above that worker in what
    it is worth, paired, and to cost no more unless it may be dearer.
    """
    alone, top = found[0], likeliest(found, dearer=dearer)
    gain, seen = top.worth - alone.worth, (top.choice.success - top.best.success).mean()
    return top if seen > 0 and gain.mean() > _ERRORS * gain.std() / np.sqrt(len(gain)) else alone


def _tried(way: Way, answers: SeenAnswers, verdicts: Verdicts, votes: Values) -> Choice:
    return Choice(way, *(decided := way.decide(answers, votes)).outcome(verdicts), decided.probability)


def serve(
    selection: Selection,
    answers: SeenAnswers,
    verdicts: Verdicts,
    learned: tuple[Features, Verdicts] | None = None,
    features: Features | None = None,
) -> Served:
    """What a selection gives on other queries, whose verdicts it does not see.

    Args:
        learned: features and verdicts of the queries that it was chosen on, and `features` of these.
    """
    if selection.kind == NEAREST:
        if learned is None or features is None:
            raise ValueError("the nearest queries are told by features")
        workers = nearest_workers(features, learned[0], learned[1].right, learned[1].cost_usd)
        rows = np.arange(len(workers))
        return verdicts.right[rows, workers], verdicts.cost_usd[rows, workers]
    return selection.choice.way.decide(answers).outcome(verdicts)


@dataclass(frozen=True, eq=False)
class Evidence:
    """What choosing and serving gave on tasks that were held out, beside the best single worker chosen likewise.

    Attributes:
        served, single: success and US dollars by task, of five folds.
    """

    served: Served
    single: Served

    def gain(self, selection: Selection) -> Interval:
        """How far what is served is above the best single worker in success, paired.

        Choosing anew on fewer tasks may give another way, and this one was chosen on the tasks that it is seen on: the
        interval holds those of both, the mean is the lower. One task more for each side keeps both wide enough.
        """
        pairs = self.served[0] - self.single[0], selection.choice.success - selection.best.success
        anew, seen = (bootstrap_mean(np.append(pair, (1.0, -1.0))) for pair in pairs)
        return Interval(min(anew.mean, seen.mean), min(anew.low, seen.low), max(anew.high, seen.high), anew.n)


def cross_validate(
    answers: SeenAnswers,
    verdicts: Verdicts,
    features: Features | None,
    groups: Rows,
    *,
    dearer: bool = False,
    progress: Callable[[str], object] = lambda _: None,
) -> Evidence | None:
    """Choose on four folds of five and serve the other, each in turn; None where there are too few tasks.

    Args:
        groups: (queries,) numbers of near-duplicates, which are held out together.
    """
    if len(groups) < FEWEST_TO_LEARN:
        return None
    folds = group_folds(groups, seed=0)
    served, single = np.full((2, 2, len(groups)), np.nan)
    for fold in np.unique(folds):
        progress(f"cross-validation {fold + 1}/5")
        known, held = np.flatnonzero(folds != fold), np.flatnonzero(folds == fold)
        if not known.size:
            return None
        own, truth = answers.take(held), verdicts.take(held)
        learned = None if features is None else (features[known], verdicts.take(known))
        near, new = (None, None) if features is None else (features[known], features[held])
        tried = candidates(answers.take(known), verdicts.take(known), near, dearer=dearer)
        chosen = pick(tried, dearer=dearer)
        served[:, held] = serve(chosen, own, truth, learned, new)
        single[:, held] = chosen.best.way.decide(own).outcome(truth)
    return Evidence((served[0], served[1]), (single[0], single[1]))


def outcomes_of(
    records: Sequence[ExecutionRecord], tasks: Sequence[Task], planners: Sequence[str]
) -> tuple[list[list[str | None]], Verdicts, NDArray[np.bool_]]:
    """(tasks, workers) what was answered, the verdicts (NaN where there is none), and what is spoken against.

    Args:
        planners: names in the log under which each worker was asked for whole tasks.
    """
    shape = len(tasks), len(planners)
    right, cost, refused = np.full(shape, np.nan), np.full(shape, np.nan), np.zeros(shape, dtype=bool)
    replies: list[list[str | None]] = [[None] * len(planners) for _ in tasks]
    rows = {task.task_id: row for row, task in enumerate(tasks)}
    for record in records:
        if record.outcome == "scored" and record.planner in planners and record.task_id in rows:
            place = row, column = rows[record.task_id], planners.index(record.planner)
            right[place], cost[place] = float(record.success), record.cost
            for attempt in record.subtasks[0].attempts if record.subtasks else ():
                if attempt.error is None:
                    replies[row][column] = attempt.answer
                    refused[place] = attempt.passed_check is False or attempt.truncated
    return replies, Verdicts(right, cost), refused


def judge_of(selection: Selection, answers: SeenAnswers, comparator: str) -> AnswerJudge:
    """What live runs decide by: the way that is served, beside the best single worker.

    Args:
        answers: that the selection was chosen on.
        comparator: by which they were compared.
    """
    singles = [] if selection.kind in (SINGLE, NEAREST) else [selection.best]
    kept = sorted([*singles, selection.choice], key=lambda one: float(one.cost_usd.mean()))
    ways = [replace(one.way, calibration=Calibration.of(one.probability, one.success)) for one in kept]
    return AnswerJudge(
        comparator,
        answers.kinds,
        answers.task_types,
        tuple(ways),
        np.array([one.success.mean() for one in kept]),
        np.array([way.decide(answers).asked.mean(axis=0) for way in ways]),
        next(place for place, one in enumerate(kept) if one is selection.choice),
    )


def verdict(
    workers: Sequence[str],
    answers: SeenAnswers,
    verdicts: Verdicts,
    selection: Selection,
    evidence: Evidence | None,
    other: Selection | None = None,
) -> list[str]:
    """What is served and what is known of it, in lines.

    Args:
        other: what would be served if it might cost more than the best single worker.
    """
    count, best = len(verdicts.right), selection.best
    single = f"{workers[selection.worker]} alone {_share(best.success)} at {_usd(best.cost_usd)}"
    right = verdicts.right.max(axis=1)
    solved = np.where(verdicts.right >= 1, verdicts.cost_usd, np.inf).min(axis=1)
    solved = np.where(np.isinf(solved), verdicts.cost_usd.min(axis=1), solved)
    oracle = f"any worker right {right.mean():.0%} at {_usd(solved)}"
    served, held = f"Served: {describe(selection, workers)}", ""
    if selection.kind == SINGLE:
        few = f"{count} tasks cannot say more than who did best on them"
        none = "no other choice was surely enough above it at no more than its price"
        served += f"; {few if evidence is None else none}"
    elif evidence is not None:
        served += f"; {_gain(evidence, selection)}"
        held = f", each held out: {_share(evidence.served[0])} at {_usd(evidence.served[1])}"
    return [
        served,
        f"Success on {count} tasks{held}; {single}; {oracle}",
        f"More tasks: {_more(selection, evidence, count)}",
        f"Another worker: {_another(right, best)}",
        f"A check that tells right from wrong: {_checked(verdicts)}{_dearer(other, selection, workers)}",
    ]


def describe(selection: Selection, workers: Sequence[str]) -> str:
    """Whom a selection asks, in words."""
    way, name = selection.choice.way, workers[selection.worker]
    order = ", then ".join(workers[worker] for worker in way.order)
    if selection.kind == NEAREST:
        return f"for each task the worker that did best on the ten tasks most like it; {name} where they say nothing"
    if selection.kind == SINGLE:
        return f"{name} alone"
    if way.stop == "sure":
        return f"{order}, until the judge of answers is {way.threshold:.0%} sure of one"
    return f"{order}, until {'two agree' if way.stop == 'agree' else 'one gives an answer that fits'}"


def _gain(evidence: Evidence, selection: Selection) -> str:
    gain = evidence.gain(selection)
    points = f"{100 * gain.mean:+.1f} points [{100 * gain.low:+.1f}, {100 * gain.high:+.1f}]"
    paid, alone = evidence.served[1].mean(), evidence.single[1].mean()
    price = f", at {paid / alone:.0%} of its price" if alone > 0 else ""
    sure = "surely" if gain.low > 0 else "probably" if gain.mean > 0 else "perhaps, though not on held-out tasks,"
    return f"{sure} better than the best single worker: {points}{price}"


def _more(selection: Selection, evidence: Evidence | None, count: int) -> str:
    if evidence is None:
        return f"with {30 - count} more, ways of asking several could be compared"
    gain = evidence.gain(selection)
    half = (gain.high - gain.low) / 2
    if gain.mean <= 0:
        return f"with {3 * count} more, half as wide intervals would show smaller gains"
    if gain.low > 0:
        return f"with {3 * count} more, the gain would be known to {50 * half:.0f} points"
    wanted = int(np.ceil(count * (half / gain.mean) ** 2)) - count
    return f"if it stays as it is, the gain would be sure with {max(wanted, 1)} more"


def _another(right: Values, best: Choice) -> str:
    nobody = int((right < 1).sum())
    lost = int((best.success < right).sum())
    wanted = f"one that solves the {nobody} of {len(right)} tasks that nobody solved would bring these"
    rest = f"others solved {lost} on which the best single worker failed"
    return f"{wanted if nobody else 'every task was solved by somebody, so none is missing'}; {rest}"


def _checked(verdicts: Verdicts) -> str:
    order = np.argsort(verdicts.cost_usd.mean(axis=0), kind="stable")
    done = np.maximum.accumulate(verdicts.right[:, order] >= 1, axis=1)
    asked = np.concatenate([np.ones((len(done), 1), dtype=bool), ~done[:, :-1]], axis=1)
    usd = (asked * verdicts.cost_usd[:, order]).sum(axis=1)
    return f"asking the cheapest first would give {done[:, -1].mean():.0%} at {_usd(usd)}"


def _dearer(other: Selection | None, selection: Selection, workers: Sequence[str]) -> str:
    if other is None or other.kind == SINGLE or other.choice.way is selection.choice.way:
        return ""
    gain = 100 * (other.choice.success.mean() - selection.best.success.mean())
    return f". With --dearer: {describe(other, workers)}; {gain:+.0f} points here, at {_usd(other.choice.cost_usd)}"


def _share(values: Values) -> str:
    interval = proportion(values)
    return f"{interval.mean:.0%} [{interval.low:.0%}, {interval.high:.0%}]"


def _usd(values: Values) -> str:
    return f"{1000 * values.mean():.3g} USD per 1,000"
