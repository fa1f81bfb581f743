"""Estimators compared on an outcome table: several splits, one bootstrap over queries for all, paired differences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
from numpy.typing import NDArray
from rich.markup import escape
from rich.table import Table

from orchestai.data.near_duplicates import near_duplicate_groups
from orchestai.data.outcome_table import OutcomeTable, Rows, Values, nan_mean
from orchestai.errors import UserError
from orchestai.estimate.calibration import BINS, reliability
from orchestai.evaluation.statistics import Interval
from orchestai.evaluation.tables.estimates import TASK_PRIOR, Estimator, Features, Fold, TableEstimates, worker_means
from orchestai.evaluation.tables.routing_metrics import (
    aiq,
    apgr,
    calls_curve,
    cpt,
    curve_through,
    hull_corners,
    hypervolume,
)

Progress: TypeAlias = Callable[[str], object]


@dataclass(frozen=True, eq=False)
class TableSplit:
    """Rows of a table, ascending; no group has rows in both."""

    train: Rows
    test: Rows


_TEST_SHARE = 0.2


def split_by_groups(groups: Rows, task_types: Sequence[str], *, seed: int) -> TableSplit:
    """Draw whole groups into the test part until it has its share of every task type's rows, up to one group's size.

    A group counts as of the type of most of its rows. Types so small that none of their rows would be tested count as
    one. A type of which a single group exists stays in the training part.
    """
    members: dict[int, list[int]] = {}
    for row, group in enumerate(groups):
        members.setdefault(int(group), []).append(row)
    of_type: dict[str, list[list[int]]] = {}
    for rows in members.values():
        [(task_type, _)] = Counter(task_types[row] for row in rows).most_common(1)
        of_type.setdefault(task_type, []).append(rows)
    rng = np.random.default_rng(seed)
    chosen = np.zeros(len(groups), dtype=bool)
    small = {name for name, own in of_type.items() if _TEST_SHARE * sum(map(len, own)) < 0.5}
    pooled = [rows for name in sorted(small) for rows in of_type[name]]
    for own in [*(of_type[name] for name in sorted(of_type.keys() - small)), pooled]:
        wanted, drawn = _TEST_SHARE * sum(map(len, own)), 0
        for place in rng.permutation(len(own)) if len(own) > 1 else ():
            if drawn + len(own[place]) / 2 <= wanted:
                chosen[own[place]] = True
                drawn += len(own[place])
    return TableSplit(np.flatnonzero(~chosen), np.flatnonzero(chosen))


_DRAWS = 1000


@dataclass(frozen=True, eq=False)
class TableFolds:
    """Several splits of one table, with the rows on which some worker's outcome is known.

    Attributes:
        groups: (queries,) numbers of groups of near-duplicates.
        weights: (queries, 1 + draws) how often each query counts: once, then as often as its group of near-duplicates
            was drawn, in all splits alike. Differences of routers are so paired, and queries that several test parts
            share do not count as independent.
    """

    seeds: tuple[int, ...]
    splits: tuple[TableSplit, ...]
    groups: Rows
    weights: Values

    @property
    def tested(self) -> Rows:
        """The queries in some test part."""
        return np.unique(np.concatenate([split.test for split in self.splits]))

    def mean(self, values: Sequence[Values]) -> Values:
        """(1 + draws,) the mean of a metric's values over the splits in which it is known, if it is in any."""
        return np.mean([own for own in values if np.isfinite(own[0])] or values, axis=0)

    def interval(self, values: Values) -> Interval:
        """The first of a metric's values, (1 + draws,), with the 95 % interval of the others."""
        drawn = values[1:][~np.isnan(values[1:])]
        low, high = np.quantile(drawn, (0.025, 0.975)) if drawn.size else (np.nan, np.nan)
        return Interval(float(values[0]), float(low), float(high), len(self.tested))


def split_table(table: OutcomeTable, seeds: Sequence[int], test: Collection[str] = ()) -> TableFolds:
    """Split a table once per seed, or once for all where the ids of the queries to test on are given.

    Raises:
        UserError: the table has fewer than two workers, or too few queries to split.
    """
    if len(table.workers) < 2:
        raise UserError(f"{table.source}: a table of one worker leaves no choice; two are needed at least")
    groups = near_duplicate_groups(table.texts, types=table.task_types)
    splits, known = [], np.asarray(usable(table).any(axis=1))
    apart = np.isin(table.ids, list(test))
    for seed in seeds:
        split = split_by_groups(groups, table.task_types, seed=seed)
        if test:
            split = TableSplit(np.flatnonzero(~np.isin(groups, groups[apart])), np.flatnonzero(apart))
        split = TableSplit(split.train[known[split.train]], split.test[known[split.test]])
        if not split.train.size or not split.test.size:
            what = f"{len(set(groups.tolist()))} groups of near-duplicates; add queries that say something else"
            costs = " (--columns cost_usd= leaves costs out)" if table.priced and not known.all() else ""
            raise UserError(
                f"{table.source}: too few queries to learn from some and test on others: {known.sum()} of "
                f"{len(table)} have a usable outcome{costs}, in {what}"
            )
        splits.append(split)
    count = int(groups.max()) + 1
    drawn = np.random.default_rng(0).multinomial(count, np.full(count, 1 / count), size=_DRAWS)
    weights = np.vstack([np.ones(len(groups)), drawn[:, groups]]).T
    # of a small table, draws without any query of some test part are left out
    kept = np.all([weights[split.test].any(axis=0) for split in splits], axis=0)
    return TableFolds(tuple(seeds), tuple(splits), groups, weights[:, kept])


_WEIGHTS = np.concatenate([[0.0], np.logspace(-3, 4, 120)])
"""Score that is given up for the mean cost of the most expensive worker."""


@dataclass(frozen=True, eq=False)
class RouterCurve:
    """What one router scored and cost, both (points, queries), at each weight on cost, none first; NaN is left out."""

    score: Values
    cost_usd: Values

    def means(self, weights: Values) -> tuple[Values, Values]:
        """(points, draws) mean cost and mean score, where (queries, draws) says how often each query counts."""
        return _weighted_mean(self.cost_usd, weights), _weighted_mean(self.score, weights)


def sweep(table: OutcomeTable, rows: Rows, estimates: TableEstimates) -> RouterCurve:
    """The curve of the worker with the highest `score - weight * cost` on each query, over 121 weights.

    The weights are the same for all rows of a table; where nothing is expected to cost, there is one point. Of equally
    good workers the cheapest is chosen, and none whose outcome is missing, as nobody knows what would have come of it.
    """
    measured = usable(table)[rows]
    score, cost = estimates.score[rows], np.zeros((len(rows), len(table.workers)))
    weights = _WEIGHTS[:1]
    if table.priced:
        cost = estimates.cost_usd[rows]
        highest = np.nanmax(nan_mean(estimates.cost_usd))
        weights = _WEIGHTS / highest if highest > 0 else weights
    choices = np.empty((len(weights), len(rows)), dtype=np.intp)
    for place, weight in enumerate(weights):
        best = np.where(measured, score - weight * cost, -np.inf)
        tied = measured & (best >= best.max(axis=1, keepdims=True))
        choices[place] = np.where(tied, cost, np.inf).argmin(axis=1)
    return RouterCurve(table.score[rows, choices], table.cost_usd[rows, choices])


def single_workers(table: OutcomeTable, rows: Rows) -> RouterCurve:
    """A point for each worker, asked on every query; queries where it cannot be chosen are left out of its mean."""
    known = usable(table)[rows]
    score, cost = (np.where(known, values[rows], np.nan).T for values in (table.score, table.cost_usd))
    return RouterCurve(score, cost)


def usable(table: OutcomeTable) -> NDArray[np.bool_]:
    """(queries, workers) where a worker's score is known, and its cost if the table has any: there it can be chosen."""
    known: NDArray[np.bool_] = np.isfinite(table.score)
    return known & np.isfinite(table.cost_usd) if table.priced else known


def _weighted_mean(values: Values, weights: Values) -> Values:
    known = np.isfinite(values)
    total = known @ weights
    return np.divide(np.where(known, values, 0.0) @ weights, total, out=np.full(total.shape, np.nan), where=total > 0)


def calibration_errors(table: OutcomeTable, rows: Rows, weights: Values, estimates: TableEstimates) -> Values:
    """(draws,) expected calibration error on these rows, over 15 bins of equal numbers of outcomes."""
    query, worker = np.nonzero(np.isfinite(table.score[rows]))
    expected = estimates.score[rows][query, worker]
    excess = expected - table.score[rows][query, worker]
    errors = [np.abs(excess[part] @ weights[query[part]]) for part in _bins(expected)]
    return np.asarray(np.sum(errors, axis=0) / weights[query].sum(axis=0))


def chance_errors(table: OutcomeTable, rows: Rows, estimates: TableEstimates, draws: int) -> Values:
    """(1 + draws,) the calibration error if these estimates were exactly right: its mean, then that of each draw.

    A small sample strays from its probabilities by chance, so that no estimate can be measured to err by less. Outcomes
    are drawn independently; where workers fail on the same queries, chance does more than that. NaN where the table has
    scores between 0 and 1, of which nobody knows how they scatter.
    """
    known = np.isfinite(table.score[rows])
    if not draws or not np.isin(table.score[rows][known], (0.0, 1.0)).all():
        return np.full(1 + draws, np.nan)
    expected, random = estimates.score[rows][known], np.random.default_rng(0)
    bins = _bins(expected)
    drawn = np.empty(draws)
    for draw in range(draws):
        excess = expected - (random.random(len(expected)) < expected)
        drawn[draw] = sum(abs(excess[part].sum()) for part in bins) / len(expected)
    return np.concatenate([[drawn.mean()], drawn])


def cost_errors(table: OutcomeTable, rows: Rows, weights: Values, estimates: TableEstimates) -> Values:
    """(draws,) |expected - true| / true mean cost, averaged over workers without those that cost nothing."""
    known = np.isfinite(table.cost_usd[rows])
    true = np.where(known, table.cost_usd[rows], 0.0).T @ weights
    expected = np.where(known, estimates.cost_usd[rows], 0.0).T @ weights
    return nan_mean(np.divide(np.abs(expected - true), true, out=np.full(true.shape, np.nan), where=true > 0))


def _bins(estimated: Values) -> list[Rows]:
    return np.array_split(np.argsort(estimated, kind="stable"), BINS)


def reliability_of(table: OutcomeTable, tested: Sequence[tuple[Rows, Values]]) -> list[list[float]]:
    """Mean estimate, mean score and number of outcomes in 15 bins, of the outcomes of all test parts together.

    Args:
        tested: rows, and (queries, workers) estimated scores of all queries, by split.
    """
    estimated = np.concatenate([score[rows].ravel() for rows, score in tested])
    true = np.concatenate([table.score[rows].ravel() for rows, _ in tested])
    return [[float(value) for value in row] for row in reliability(estimated, true)]


COIN_FLIPS: Final = "coin_flips"

Metrics: TypeAlias = dict[tuple[str, ...], Values]
"""(metric, router), or (`success_at_cost`, worker whose cost it is, router), -> (draws,) values."""


@dataclass(frozen=True, eq=False)
class HeldOutPart:
    """The queries that routers are tested on: `rows`, each counted (queries, draws) `weights` times."""

    fold: Fold
    rows: Rows
    weights: Values


def costs_differ(table: OutcomeTable) -> bool:
    """Whether some worker costs more than another on average, without which there is nothing to save."""
    means = nan_mean(np.where(usable(table), table.cost_usd, np.nan))
    return bool(np.nanmin(means) < np.nanmax(means)) if np.isfinite(means).any() else False


def metrics_of_workers(part: HeldOutPart) -> Metrics:
    """Success and cost of each worker alone, and all metrics of tossing coins between them."""
    table, metrics = part.fold.table, Metrics()
    cost, score = RouterCurve(table.score[part.rows].T, table.cost_usd[part.rows].T).means(part.weights)
    for index, worker in enumerate(table.workers):
        metrics["success", worker] = score[index]
        if table.priced:
            metrics["usd_per_1000", worker] = 1000 * cost[index]
    learned, tested = (single_workers(table, rows) for rows in (part.fold.train, part.rows))
    metrics |= _metrics_of_curve(part, COIN_FLIPS, learned, tested)
    cost, score = tested.means(part.weights)
    best = int(np.nanargmax(nan_mean(learned.score.T)))
    metrics["success", COIN_FLIPS] = score[best]
    if table.priced:
        metrics["usd_per_1000", COIN_FLIPS] = 1000 * cost[best]
    return metrics | _metrics_of_calls(part, COIN_FLIPS, np.zeros_like(table.score))


def metrics_of_router(part: HeldOutPart, name: str, estimates: TableEstimates) -> Metrics:
    """All metrics of the router that chooses by these estimates."""
    learned, tested = (sweep(part.fold.table, rows, estimates) for rows in (part.fold.train, part.rows))
    metrics = _metrics_of_curve(part, name, learned, tested) | _metrics_of_calls(part, name, estimates.score)
    table, rows, weights = part.fold.table, part.rows, part.weights
    metrics["ece", name] = calibration_errors(table, rows, weights, estimates)
    metrics["ece_by_chance", name] = chance_errors(table, rows, estimates, weights.shape[1] - 1)
    if table.priced:
        metrics["cost_error", name] = cost_errors(table, rows, weights, estimates)
    return metrics


def _metrics_of_curve(part: HeldOutPart, name: str, learned: RouterCurve, tested: RouterCurve) -> Metrics:
    """The success without thrift; of a priced table its cost; where costs differ AIQ, hypervolume, success at a cost.

    The corners of the hull are chosen by what the training queries say (`learned`) and scored on the test queries.
    Chosen on the test queries, the best of many noisy points would stand above what any of them is worth.
    """
    cost, score = tested.means(part.weights)
    metrics: Metrics = {("success", name): score[0]}
    if not part.fold.table.priced:
        return metrics
    metrics["usd_per_1000", name] = 1000 * cost[0]
    if not costs_differ(part.fold.table):
        return metrics
    worker_cost, _ = single_workers(part.fold.table, part.rows).means(part.weights)
    low, high = np.nanmin(worker_cost, axis=0), np.nanmax(worker_cost, axis=0)
    draws = range(part.weights.shape[1])
    known_cost, known_score = learned.means(np.ones((len(part.fold.train), 1)))
    corners = hull_corners(known_cost[:, 0], known_score[:, 0])
    curves = [curve_through(cost[corners, d], score[corners, d]) for d in draws]
    metrics["aiq", name] = np.array([aiq(curves[d], low[d], high[d]) for d in draws])
    metrics["hypervolume", name] = np.array([hypervolume(cost[:, d], score[:, d], high[d]) for d in draws])
    for worker, budgets in zip(part.fold.table.workers, worker_cost, strict=True):
        metrics["success_at_cost", worker, name] = np.array([np.interp(budgets[d], *curves[d]) for d in draws])
    return metrics


def _metrics_of_calls(part: HeldOutPart, name: str, estimated: Values) -> Metrics:
    """APGR and CPT, where both of two workers were measured; the one that was better in training is the strong one."""
    table = part.fold.table
    if len(table.workers) != 2 or not np.isfinite(table.score).all(axis=1).any():
        return {}
    weak, strong = np.argsort(worker_means(table.score[part.fold.train]))
    both = np.isfinite(table.score[part.rows]).all(axis=1)
    rows = part.rows[both]
    preference = estimated[rows, strong] - estimated[rows, weak]
    scores = table.score[rows, weak], table.score[rows, strong]
    curves = [calls_curve(preference, *scores, drawn) for drawn in part.weights[both].T]
    metrics: Metrics = {("apgr", name): np.array([apgr(*curve) for curve in curves])}
    for percent in (50, 80):  # of the gap, as RouteLLM reports
        metrics[f"cpt_{percent}", name] = np.array([cpt(*curve, percent / 100) for curve in curves])
    return metrics


@dataclass(frozen=True, eq=False)
class TableEvaluation:
    """Metrics over several splits of a table.

    Attributes:
        table: whose test parts were measured on.
        metrics: means over the splits in which they are known; of each the first value is over all test queries, the
            others over draws of them.
        reliability: by estimator, see `reliability_of`.
        notes: what a reader of the figures has to know.
    """

    table: OutcomeTable
    folds: TableFolds
    metrics: Metrics
    reliability: dict[str, list[list[float]]]
    notes: list[str]

    def interval(self, *key: str) -> Interval:
        """A metric of a row with its 95 % bootstrap interval; raises `KeyError` where there is none."""
        return self.folds.interval(self.metrics[key])

    def difference(self, metric: str, router: str, other: str) -> Interval:
        """Router minus other, over the same queries."""
        return self.folds.interval(self.metrics[metric, router] - self.metrics[metric, other])

    def routers(self, metric: str) -> list[str]:
        """Those that have the metric, in the order in which they were evaluated."""
        return [key[-1] for key in self.metrics if key[:-1] == (metric,)]

    def facts(self) -> dict[str, Any]:
        """What stands beside the figures."""
        sizes = [len(split.test) for split in self.folds.splits]
        return {"notes": self.notes, "seeds": list(self.folds.seeds), "test_sizes": sizes, "queries": len(self.table)}


_TAKEN = ("answers", "paths", "reader", "table", "versions")
"""Keys of a report that stand beside the figures, which are under the table's name."""


def refuse_taken_names(table: OutcomeTable, rows: Iterable[str]) -> None:
    """Refuse a table, or a worker, whose figures would take the place of others in a report, which has these rows.

    Raises:
        UserError: it is named like a fact about the report, or a worker like one of the rows.
    """
    if table.source in _TAKEN:
        raise UserError(
            f"{table.source}: a report has facts of its own under this name; rename the file, whose name is the table's"
        )
    if taken := set(table.workers) & set(rows):
        raise UserError(
            f"{table.source}: the worker {min(taken)!r} is called like another row of the report; rename it in the file"
        )


def evaluate_table(
    table: OutcomeTable,
    features: Features,
    estimators: Mapping[str, Estimator],
    *,
    seeds: Sequence[int] = (0, 1, 2),
    test: Collection[str] = (),
    progress: Progress = lambda _: None,
) -> TableEvaluation:
    """Learn on 80 % of the queries and choose on the rest, for each seed.

    Args:
        test: ids of the queries to choose on, in place of the rest.
        estimators: by the name of the router that chooses by them.
        progress: is told what is being done.

    Raises:
        UserError: the table has fewer than two workers, too few queries to split, or a name that the report needs.
    """
    refuse_taken_names(table, {COIN_FLIPS, *estimators})
    progress("finding near-duplicate queries")
    folds = split_table(table, seeds, test)
    metrics = []
    estimated: dict[str, list[tuple[Rows, Values]]] = {name: [] for name in estimators}
    for seed, split in zip(folds.seeds, folds.splits, strict=True):
        fold = Fold(table, split.train, features, folds.groups, seed)
        part = HeldOutPart(fold, split.test, folds.weights[split.test])
        own = metrics_of_workers(part)
        for name, estimator in estimators.items():
            progress(f"split {seed}: {name}")
            estimates = estimator(fold)
            own |= metrics_of_router(part, name, estimates)
            estimated[name].append((split.test, estimates.score))
        metrics.append(own)
    means = {key: folds.mean([own[key] for own in metrics]) for key in metrics[0]}
    calibration = {name: reliability_of(table, tested) for name, tested in estimated.items()}
    of_calls = [own["apgr", COIN_FLIPS][0] for own in metrics if ("apgr", COIN_FLIPS) in own]
    return TableEvaluation(table, folds, means, calibration, _notes(table, folds, int(np.isnan(of_calls).sum())))


_FEWEST, _MANY = 30, 50
"""Different queries, below which percentiles of draws are narrower than chance; of a type, of which one is tested."""


def _notes(table: OutcomeTable, folds: TableFolds, uncompared: int) -> list[str]:
    """What a reader has to know, `uncompared` splits saying nothing of calls of the stronger worker."""
    shares = dict(zip(table.workers, usable(table).mean(axis=0).tolist(), strict=True))
    notes = [f"no outcome of {worker} can be used" for worker, share in shares.items() if share == 0]
    if sparse := [f"{worker} {share:.0%}" for worker, share in shares.items() if 0 < share < 0.99]:
        notes.append(
            f"workers were measured on different queries ({', '.join(sparse)} of them), so that their means, "
            f"{COIN_FLIPS} and the bounds of aiq compare different queries"
        )
    if table.priced and not costs_differ(table):
        notes.append("all workers cost the same, so that there is no aiq")
    if uncompared:
        notes.append(
            f"apgr and cpt leave out {uncompared} of {len(folds.seeds)} splits, where the worker that was better in "
            "training is not better in the test part, or no query was put to both"
        )
    tested = {table.task_types[row] for row in folds.tested}
    counts = Counter(table.task_types)
    if untested := sorted(kind for kind, count in counts.items() if kind and count >= _MANY and kind not in tested):
        notes.append(f"no query of {', '.join(untested)} was tested: near-duplicates of each other, or not measured")
    if (count := len(np.unique(folds.groups[folds.tested]))) < _FEWEST:
        notes.append(f"only {count} different queries were tested: intervals are narrower than chance allows")
    return notes


_MAIN = ("aiq", "apgr")
"""Metrics whose differences are given."""


def to_dict(evaluation: TableEvaluation) -> dict[str, Any]:
    """`{source: {metric: {router: {mean, low, high, n}}}}`, differences by metric and `ROUTER - OTHER`, and facts.

    `reliability` has for each estimator mean estimate, mean score and number of outcomes in 15 bins.
    """
    figures: dict[str, Any] = {}
    for *path, router in evaluation.metrics:
        inner = figures
        for name in path:
            inner = inner.setdefault(name, {})
        inner[router] = evaluation.interval(*path, router).to_dict()
    figures["differences"] = {
        metric: {
            f"{router} - {other}": evaluation.difference(metric, router, other).to_dict()
            for router in routers
            for other in routers
            if router != other
        }
        for metric in _MAIN
        if (routers := evaluation.routers(metric))
    }
    figures["reliability"] = evaluation.reliability
    table = evaluation.table
    own = {"digest": table.digest, "workers": list(table.workers), "unusable": dict(table.unusable)}
    return {table.source: figures, "table": own | evaluation.facts()}


def to_table(evaluation: TableEvaluation) -> Table:
    """A row per router, and the main metric's paired difference to the task prior; readable in 80 columns.

    What calls of the stronger of two workers bring is in the JSON alone where costs say more.
    """
    shown = ("aiq",) if evaluation.routers("aiq") else ("apgr", "cpt_50", "cpt_80")
    columns = [column for column in ("success", "usd_per_1000", *shown) if evaluation.routers(column)]
    main = next((metric for metric in _MAIN if evaluation.routers(metric)), "")
    printed = Table(
        title=escape(
            f"{evaluation.table.source}: {len(evaluation.table)} queries, {len(evaluation.folds.tested)} tested"
        )
    )
    printed.add_column("router", overflow="fold", min_width=12)
    for column in (*columns, f"{main} - {TASK_PRIOR}") if main else columns:
        printed.add_column(column, justify="right", no_wrap=True)
    for router in evaluation.routers("success"):
        means = (evaluation.metrics.get((column, router)) for column in columns)
        cells = ["" if values is None else f"{values[0]:.3f}" for values in means]
        if {router, TASK_PRIOR} <= set(evaluation.routers(main)) and router != TASK_PRIOR:
            gap = evaluation.difference(main, router, TASK_PRIOR)
            cells.append(f"{gap.mean:+.3f} [{gap.low:+.3f}, {gap.high:+.3f}]")
        printed.add_row(escape(router), *cells)
    return printed
