"""Ways of asking compared on a table with answers: what they see of answers decides, and nothing says what is right."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final

import numpy as np
from rich.markup import escape
from rich.table import Table

from orchestai.data.near_duplicates import near_duplicate_groups
from orchestai.data.outcome_table import OutcomeTable, Rows, Values
from orchestai.errors import UserError
from orchestai.estimate.answers import (
    Choice,
    SeenAnswers,
    Verdicts,
    Way,
    best_of,
    fixed_ways,
    guarded,
    learn_judged,
    tried,
)
from orchestai.estimate.calibration import expected_calibration_error
from orchestai.estimate.comparators import COMPARATORS, find_comparator
from orchestai.estimate.success import group_folds
from orchestai.evaluation.statistics import Interval
from orchestai.evaluation.tables.estimates import BASELINES, OURS, Features, Fold
from orchestai.evaluation.tables.evaluate import TableSplit, refuse_taken_names, sweep, usable

FIXED_ROWS: Final = ("best_single", "single_within_budget", "until_two_agree", "best_fixed_rule", "static_mix", "knn")
JUDGE: Final = "judge"
ROWS: Final = (*FIXED_ROWS, JUDGE, OURS, "oracle")
_DRAWS, _BINS = 10_000, 10


@dataclass(frozen=True, eq=False)
class AnswersEvaluation:
    """What each row did on each query that was tested.

    Attributes:
        decisions: by row, (4, seeds, queries) success, US dollars, whose answer was given and how probably it is right.
        ids, groups: (queries,) names, and numbers of groups of near-duplicates.
    """

    source: str
    title: str
    decisions: dict[str, Values]
    ids: Sequence[str]
    groups: Rows
    facts: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def means(self) -> dict[str, Values]:
        """By row, (2, queries) success and US dollars as means over the seeds."""
        return {row: own[:2].mean(axis=1) for row, own in self.decisions.items()}

    @cached_property
    def weights(self) -> Values:
        """(queries, 1 + draws) how often each counts: once, and as often as its near-duplicates were drawn."""
        _, own = np.unique(self.groups, return_inverse=True)
        count = int(own.max()) + 1
        drawn = np.random.default_rng(0).multinomial(count, np.full(count, 1 / count), size=_DRAWS)
        return np.vstack([np.ones(len(own)), drawn[:, own]]).T

    def interval(self, values: Values) -> Interval:
        """The mean with its 95 % bootstrap interval."""
        drawn = values @ self.weights / self.weights.sum(axis=0)
        low, high = np.quantile(drawn[1:], (0.025, 0.975))
        return Interval(float(drawn[0]), float(low), float(high), len(values))

    def to_dict(self) -> dict[str, Any]:
        """`{source: {row: {success: {mean, low, high, n}, usd_per_1000: ...}}}`, paired differences, and facts."""
        figures = {
            row: {"success": self.interval(own).to_dict(), "usd_per_1000": self.interval(1000 * cost).to_dict()}
            for row, (own, cost) in self.means.items()
        }
        facts = {
            "title": self.title,
            "differences": {
                f"{row} - {other}": self.interval(self.means[row][0] - self.means[other][0]).to_dict()
                for row in (JUDGE, OURS)
                for other in FIXED_ROWS
            },
            "calibration": {row: _calibration(*self.decisions[row][[3, 0]]) for row in (JUDGE, OURS)},
        }
        return {self.source: figures, "answers": facts | self.facts}

    def to_table(self) -> Table:
        """A row each, with the paired difference of ours to it."""
        printed = Table(title=escape(self.title))
        for column in ("", "success", "USD per 1,000", f"{OURS} - row"):
            printed.add_column(column, justify="right" if column else "left", no_wrap=True)
        for row, (own, cost) in self.means.items():
            gap = self.interval(self.means[OURS][0] - own)
            difference = "" if row == OURS else f"{gap.mean:+.3f} [{gap.low:+.3f}, {gap.high:+.3f}]"
            printed.add_row(row, f"{own.mean():.3f}", f"{1000 * cost.mean():.3f}", difference)
        return printed


def evaluate_answers(
    table: OutcomeTable,
    answers: SeenAnswers,
    features: Features,
    usd_per_1000: float | None = None,
    *,
    regime: str = "unchecked answers",
    test: Sequence[str] = (),
    seeds: Sequence[int] = (0, 1, 2, 3, 4),
    labels: int | None = None,
    progress: Callable[[str], object] = lambda _: None,
) -> AnswersEvaluation:
    """Choose ways of asking on queries with verdicts and measure them on others, where no decision sees a verdict.

    Args:
        answers: what is seen of the table's replies.
        features: (queries, width) unit vectors of the queries' texts, by which `knn` chooses.
        usd_per_1000: budget of all rows but `best_single`; that row's cost on the queries to learn from if absent.
        regime: what is seen, for the title.
        test: ids of the queries to test on; without any each of five folds is tested, for each seed.
        labels: queries to learn from, drawn of those that may be; all if absent.

    Raises:
        UserError: the table has no costs, fewer than two workers, or too few queries.
    """
    if not table.priced:
        raise UserError(f"{table.source}: this table holds no costs, without which all ways ask everybody")
    refuse_taken_names(table, ROWS)
    whole = np.flatnonzero(usable(table).all(axis=1))
    lacking = len(table) - len(whole)
    notes = [f"left out: {lacking} queries that some worker has no outcome of"] if lacking else []
    table, answers, features = table.take(whole), answers.take(whole), features[whole]
    if len(table) < 10 or len(table.workers) < 2:
        raise UserError(f"{table.source}: {len(table)} queries with outcomes of all {len(table.workers)} workers")
    verdicts = Verdicts(table.score, table.cost_usd)
    progress("finding near-duplicate queries")
    groups = near_duplicate_groups(table.texts, types=table.task_types)
    tested = np.isin(table.ids, list(test)) if test else np.ones(len(table), dtype=bool)
    decisions = {row: np.full((4, len(seeds), len(table)), np.nan) for row in ROWS}
    chosen: dict[str, list[str]] = {}
    for place, seed in enumerate(seeds):
        for split in _splits(groups, tested if test else None, seed):
            progress(f"seed {seed}: {len(chosen.get(OURS, ())) + 1}")
            train = split.train if labels is None else np.random.default_rng(seed).permutation(split.train)[:labels]
            fold = Fold(table, train, features, groups, seed)
            for row, way, rows in _rows(fold, answers, verdicts, split, usd_per_1000 and usd_per_1000 / 1000):
                decisions[row][: len(rows), place, split.test] = rows
                if way is not None:
                    names = " > ".join(table.workers[worker] for worker in way.order)
                    threshold = f", from {way.threshold}" if way.judge else ""
                    chosen.setdefault(row, []).append(f"{way.stop}: {names}{threshold}")
    how = f"{int(tested.sum())} queries apart" if test else f"{len(table)} queries, five folds, {len(seeds)} seeds"
    title = f"{table.source}: {regime}, {how}" + (f", {labels} labels" if labels else "")
    decisions, ids = {row: own[:, :, tested] for row, own in decisions.items()}, np.array(table.ids)[tested].tolist()
    facts = {"chosen": chosen, "notes": notes, "digest": table.digest}
    return AnswersEvaluation(table.source, title, decisions, ids, groups[tested], facts)


def see_answers(table: OutcomeTable, name: str) -> SeenAnswers:
    """What is seen of a table's replies, by the comparator of a kind of answers, or a user's `MODULE:FUNCTION`.

    Raises:
        UserError: the table has no replies, or there is no such comparator.
    """
    if table.replies is None:
        raise UserError(f"{table.source}: this table holds no replies that could be compared")
    try:
        compare = find_comparator(name)
    except (ImportError, AttributeError, ValueError) as error:
        raise UserError(f"--answers: {name!r}: no {', '.join(COMPARATORS)} or MODULE:FUNCTION ({error})") from None
    return SeenAnswers.of(table.texts, table.task_types, table.replies, compare)


def _splits(groups: Rows, test: Any, seed: int) -> Iterator[TableSplit]:
    """The one that is given, near-duplicates of the test part left out of the other; or five."""
    if test is not None:
        yield TableSplit(np.flatnonzero(~np.isin(groups, groups[test])), np.flatnonzero(test))
        return
    folds = group_folds(groups, seed)
    for fold in np.unique(folds):
        yield TableSplit(np.flatnonzero(folds != fold), np.flatnonzero(folds == fold))


def _rows(
    fold: Fold, answers: SeenAnswers, verdicts: Verdicts, split: TableSplit, budget: float | None
) -> Iterator[tuple[str, Way | None, Values]]:
    """Each row with its way, where it has one, and the first two or all of its decisions on the test part."""
    table, known, learned = fold.table, answers.take(fold.train), verdicts.take(fold.train)
    alone = (Way(np.array([worker])) for worker in range(len(table.workers)))
    singles = list(tried(alone, known, learned))
    best = best_of(iter(singles), np.inf)
    assert best is not None
    most = budget or float(best.cost_usd.mean())
    fixed = list(tried(fixed_ways(known, learned, most), known, learned))
    within = best_of(iter(singles), most) or min(singles, key=lambda one: float(one.cost_usd.mean()))
    agree = best_of((one for one in fixed if one.way.stop == "agree"), most) or within
    rule = best_of(iter([within, *fixed]), most) or within
    judged = learn_judged(known, learned, most, rule.way.order.tolist())
    choices = best, within, agree, rule, judged or rule, guarded(judged, rule)
    asked, truth = answers.take(split.test), verdicts.take(split.test)
    for row, choice in zip((*FIXED_ROWS[:4], JUDGE, OURS), choices, strict=True):
        decided = choice.way.decide(asked)
        yield row, choice.way, np.stack([*decided.outcome(truth), decided.worker, decided.probability])
    yield (
        FIXED_ROWS[4],
        None,
        static_mix([*singles, rule, agree], float((judged or rule).cost_usd.mean()), asked, truth),
    )
    estimates = BASELINES["knn"](fold)
    seen = sweep(table, fold.train, estimates)
    cost, success = seen.cost_usd.mean(axis=1), seen.score.mean(axis=1)
    point = int(np.where(cost <= most, success, -1).argmax()) if (cost <= most).any() else int(cost.argmin())
    routed = sweep(table, split.test, estimates)
    yield FIXED_ROWS[5], None, np.stack([routed.score[point], routed.cost_usd[point]])
    right = np.where(truth.right == truth.right.max(axis=1, keepdims=True), truth.cost_usd, np.inf)
    yield "oracle", None, np.stack([truth.right.max(axis=1), right.min(axis=1)])


def static_mix(choices: Sequence[Choice], usd: float, answers: SeenAnswers, verdicts: Verdicts) -> Values:
    """(2, queries) of the coin flip between two ways that costs no more and scored most where they were learned."""
    cost, success = np.array([(one.cost_usd.mean(), one.success.mean()) for one in choices]).T
    best, found = -1.0, (int(cost.argmin()), int(cost.argmin()), 0.0)
    for low in np.flatnonzero(cost <= usd).tolist():
        for high in range(len(choices)):
            share = 0.0 if cost[high] <= usd else float((usd - cost[low]) / (cost[high] - cost[low]))
            if (value := (1 - share) * success[low] + share * success[high]) > best:
                best, found = value, (low, high, share)
    low, high, share = found
    first, second = (np.stack(choices[one].way.decide(answers).outcome(verdicts)) for one in (low, high))
    return np.asarray((1 - share) * first + share * second)


def _calibration(probability: Values, success: Values) -> dict[str, float | None]:
    """The ten-bin error of (seeds, queries) probabilities, and what exact ones would have on as many queries."""
    known = probability[np.isfinite(probability)]
    if not known.size:
        return {"ece": None, "by_chance": None}
    rng = np.random.default_rng(0)
    drawn = rng.choice(known, (200, probability.shape[1]))
    right = (rng.random(drawn.shape) < drawn).astype(float)
    exact = [expected_calibration_error(*one, _BINS) for one in zip(drawn, right, strict=True)]
    return {"ece": expected_calibration_error(probability, success, _BINS), "by_chance": float(np.mean(exact))}
