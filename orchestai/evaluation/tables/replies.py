"""Replies judged by running them, and single workers, fixed cascades and learned ones compared on what came of it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import permutations, product
from pathlib import Path
from typing import Any, Final

import numpy as np
from rich.markup import escape
from rich.table import Table

from orchestai.data.tables.outcome_table import OutcomeTable, Rows, Values, nan_mean
from orchestai.errors import UserError
from orchestai.estimate.attempts import Attempts, Queries, price_cards
from orchestai.estimate.calibration import Calibration
from orchestai.estimate.plan_options import StepEstimate, escalations
from orchestai.estimate.spending import SpendingEstimate
from orchestai.estimate.success import fit_success, group_folds, learn
from orchestai.evaluation.statistics import Interval
from orchestai.evaluation.tables.estimates import OURS, Features, TableEstimates, queries_of
from orchestai.evaluation.tables.evaluate import (
    Metrics,
    TableEvaluation,
    errors_of,
    refuse_taken_names,
    reliability_of,
    split_table,
)
from orchestai.rewards.unit_tests import judge
from orchestai.sandbox import Sandbox
from orchestai.storage.byte_store import ByteStore
from orchestai.tasks.task import Task
from orchestai.workers.prompting.source import reply_program

_MAX_STORED_BYTES = 1 << 28
_VERSION = 2
"""Of what is stored per program."""


@dataclass(frozen=True, eq=False)
class ProgramReplies:
    """What came of running a table's replies.

    Attributes:
        table: the queries for which there are tests; `score` is 1 where a reply passes all of them, else 0, and NaN
            where the sandbox could not judge it.
        visible: (queries, workers) 1 where it passes the first test, which a cascade may see.
        recorded: (queries, workers) the scores that the table came with.
    """

    table: OutcomeTable
    visible: Values
    recorded: Values

    def agreement(self) -> tuple[float, float]:
        """Of the replies that were recorded as right the share that pass, and of those as wrong the share that fail."""
        known = np.isfinite(self.table.score) & np.isfinite(self.recorded)
        right, wrong = known & (self.recorded == 1), known & (self.recorded == 0)
        return float(self.table.score[right].mean()), float(1 - self.table.score[wrong].mean())


def matching_tasks(table: OutcomeTable, tasks: Sequence[Task]) -> tuple[dict[int, Task], int]:
    """Row -> the task whose instruction begins with the row's text and goes on in another line, or ends there.

    Rows without such a task are left out, and rows with several of different tests, whose number is given.
    """
    by_beginning: dict[str, list[Task]] = {}
    for task in tasks:
        by_beginning.setdefault(task.instruct_prompt.split("\n")[0].strip(), []).append(task)
    found = {row: by_beginning.get(text.strip(), []) for row, text in enumerate(table.texts)}
    clear = {row: own[0] for row, own in found.items() if len({task.test for task in own}) == 1}
    return clear, sum(len(own) > 0 for own in found.values()) - len(clear)


def run_replies(
    table: OutcomeTable,
    tasks: dict[int, Task],
    sandbox: Sandbox,
    cache_dir: Path,
    progress: Callable[[str], object] = lambda _: None,
) -> ProgramReplies:
    """Run every reply against its task's tests.

    Args:
        tasks: by row.
        cache_dir: verdicts are kept in its folder `replies`, 256 MiB at most, by the program and its tests, unless a
            busy machine may have caused them.

    Raises:
        UserError: the table has no replies, or no task fits its queries.
    """
    if table.replies is None:
        raise UserError(f"{table.source}: this table holds no replies that could be run")
    if not tasks:
        raise UserError(f"{table.source}: none of its queries is the instruction of a task with tests")
    rows = sorted(tasks)
    store = ByteStore(cache_dir / "replies", _MAX_STORED_BYTES)

    async def passed_tests(task: Task, replies: Sequence[str | None]) -> list[list[bool] | None]:
        return await asyncio.gather(*(_tests_passed(task, reply, sandbox, store) for reply in replies))

    own = table.take(rows)
    visible, passed = np.full(own.score.shape, np.nan), np.full(own.score.shape, np.nan)
    assert own.replies is not None
    for index, (row, replies) in enumerate(zip(rows, own.replies, strict=True)):
        progress(f"running replies: query {index + 1} of {len(rows)}")
        for column, tests in enumerate(asyncio.run(passed_tests(tasks[row], replies))):
            if tests is not None:
                visible[index, column], passed[index, column] = tests[0], all(tests)
    return ProgramReplies(replace(own, score=passed), visible, own.score)


async def _tests_passed(task: Task, reply: str | None, sandbox: Sandbox, store: ByteStore) -> list[bool] | None:
    """Which tests a reply passes, in the order of their source; None where there is no reply, or no verdict."""
    if reply is None:
        return None
    code = reply_program(reply, task.entry_point, len(task.parameters))
    if code is None:
        return [False]
    key = json.dumps([_VERSION, code, task.test, task.entry_point])
    if (stored := store.load(key)) is not None:
        return [bool(passed) for passed in json.loads(stored)]
    report = await judge(sandbox, task, code)
    if report.status in ("infra_error", "broken", "refused"):
        return None
    tests = [test.outcome == "passed" for test in report.tests] or [False]
    if report.repeatable:
        store.save(key, json.dumps(tests).encode())
    return tests


_WEIGHTS: Final = np.append(0.0, np.logspace(-2, 0.75, 23))
"""Success that is given up for the mean cost of the most expensive worker, none first."""


@dataclass(frozen=True, eq=False)
class Cascades:
    """What came of asking in several ways: success and cost in US dollars, (ways, queries).

    NaN where what happens depends on a reply that was not judged, or whose cost is not known.
    """

    success: Values
    cost_usd: Values

    def best(self, rows: Rows, most_usd: float = np.inf, *, cheapest: bool = False) -> int | None:
        """The way of most success on these queries at no more than a mean cost, of equals the first or the cheapest."""
        success, cost = nan_mean(self.success[:, rows].T), nan_mean(self.cost_usd[:, rows].T)
        thrifty = np.flatnonzero(cost <= most_usd)
        if cheapest:
            thrifty = thrifty[np.argsort(cost[thrifty], kind="stable")]
        return int(thrifty[success[thrifty].argmax()]) if thrifty.size else None


def learn_cascades(
    replies: ProgramReplies, queries: Queries, groups: Rows, train: Rows, seed: int
) -> tuple[Cascades, TableEstimates]:
    """Learn from the training queries which replies pass, and which of these are right; and ask accordingly.

    Returns:
        what came of it at each weight on cost; and how probably each worker's reply was expected to be right, and what
        it was to cost. Of queries to learn from both are by estimates that did not know them.
    """
    visible, cost_usd = replies.visible, replies.table.cost_usd
    right = np.where(visible == 1, replies.table.score, np.nan)
    typical = nan_mean(cost_usd[train])
    attempts = Attempts(queries, np.hstack([visible, right]), np.tile(price_cards(typical), (2, 1)), groups)
    estimate = fit_success(attempts.take(train), seed=seed).estimate
    success, cost = np.full((2, len(_WEIGHTS), len(queries)), np.nan)
    expected = TableEstimates(*np.full((2, *visible.shape), np.nan))
    folds = np.full(len(queries), -1)
    folds[train] = group_folds(groups[train], seed)
    for fold in np.unique(folds):
        learned = train if fold < 0 else train[folds[train] != fold]
        own = estimate if fold < 0 else learn(attempts.take(learned), estimate.strengths, Calibration())
        rows = np.flatnonzero(folds == fold)
        nothing = np.full(len(typical), np.nan)
        spending = SpendingEstimate.fit(queries.take(learned), cost_usd[learned], nothing)
        asked = queries.take(rows)
        chances, spent, beliefs = own.success_at_points(asked), spending.expected(asked), own.belief(asked)
        for place, row in enumerate(rows.tolist()):
            passes, right_then = np.split(chances[place], 2)
            step = StepEstimate(passes, right_then, spent[place][None], beliefs[place])
            expected.score[row], expected.cost_usd[row] = (passes * right_then) @ beliefs[place], spent[place]
            for weight, chain in enumerate(escalations(step, _WEIGHTS / np.nanmax(typical))):
                success[weight, [row]], cost[weight, [row]] = chain_outcomes(replies, chain, np.array([row]))
    return Cascades(success, cost), expected


def chain_outcomes(replies: ProgramReplies, chain: Sequence[int], rows: Rows | None = None) -> tuple[Values, Values]:
    """(queries,) success and cost in US dollars of a chain of workers, by index, on all queries or some.

    The answer is the first reply that passes the visible test, or the last one. All that were asked are paid. NaN where
    what happens depends on a reply that was not judged, or whose cost is not known.
    """
    rows = np.arange(len(replies.table)) if rows is None else rows
    asked, unjudged = np.ones(len(rows), dtype=bool), np.zeros(len(rows), dtype=bool)
    score, cost = np.full(len(rows), np.nan), np.zeros(len(rows))
    for worker in chain:
        score[asked] = replies.table.score[rows[asked], worker]
        cost[asked] += replies.table.cost_usd[rows[asked], worker]
        unjudged |= asked & np.isnan(replies.visible[rows, worker])
        asked &= replies.visible[rows, worker] != 1
    unknown = unjudged | np.isnan(score) | np.isnan(cost)
    return np.where(unknown, np.nan, score), np.where(unknown, np.nan, cost)


BEST_SINGLE: Final = "best_single"
CASCADE: Final = "cascade"
OURS_AT_CASCADE_COST: Final = "ours_at_cascade_cost"
_LONGEST = 3


@dataclass(frozen=True, eq=False)
class RepliesEvaluation(TableEvaluation):
    """Success and cost of each row over the splits, and how far what was expected of each worker's reply was off."""

    replies: ProgramReplies

    def intervals(self, row: str) -> tuple[Interval, Interval]:
        """Success and US dollars per 1,000 queries."""
        return self.interval("success", row), self.interval("usd_per_1000", row)

    def to_dict(self) -> dict[str, Any]:
        """`{source: {row: {success: {mean, low, high, n}, usd_per_1000: ...}}}`, the agreement, and what was chosen."""
        metrics, rows = ("success", "usd_per_1000"), self.routers("success")
        right, wrong = self.replies.agreement()
        errors = ("ece", "ece_by_chance", "cost_error")
        facts = {
            "agreement": {"recorded_right_that_pass": right, "recorded_wrong_that_fail": wrong},
            **{metric: {OURS: self.interval(metric, OURS).to_dict()} for metric in errors},
            "reliability": self.reliability,
            "not_judged": int(np.isnan(self.table.score).sum()),
            "chosen": self.chosen,
            "differences": {
                f"{row} - {other}": {metric: self.difference(metric, row, other).to_dict() for metric in metrics}
                for row, other in product((OURS, OURS_AT_CASCADE_COST), (BEST_SINGLE, CASCADE))
                if {row, other} <= set(rows)
            },
        }
        figures = {row: {metric: self.interval(metric, row).to_dict() for metric in metrics} for row in rows}
        return {self.table.source: figures, "replies": facts | self.facts()}

    def to_table(self) -> Table:
        """A row each, as printed."""
        printed = Table(title=escape(f"{self.table.source}: replies of {len(self.table)} queries, run"))
        for column in ("", "success", "USD per 1,000"):
            printed.add_column(column, justify="right" if column else "left")
        for row in self.routers("success"):
            cells = (f"{one.mean:.3f} [{one.low:.3f}, {one.high:.3f}]" for one in self.intervals(row))
            printed.add_row(escape(row), *cells)
        return printed


def evaluate_replies(
    replies: ProgramReplies,
    features: Features,
    named: Sequence[Sequence[str]] = (),
    *,
    budget: float = 1 / 15,
    seeds: Sequence[int] = (0, 1, 2),
) -> RepliesEvaluation:
    """Compare every worker, the best one, named cascades, the best cascade of three at most, and the learned one.

    The best ones are those that have most success on the training queries, where a cascade, fixed or learned, may only
    cost so much; if none is so cheap in some split, there is no row of it. All are measured on the test queries.

    Args:
        features: (queries, width) unit vectors of the queries' texts.
        named: cascades, by their workers' names.
        budget: of a chosen cascade, as a share of what the best single worker costs on the training queries.

    Raises:
        UserError: the table has no costs, no worker of a name, a name that the report needs, or no judged reply.
    """
    table, workers = replies.table, replies.table.workers
    refuse_taken_names(table, (BEST_SINGLE, CASCADE, OURS, OURS_AT_CASCADE_COST))
    if not table.priced:
        raise UserError(f"{table.source}: this table holds no costs, without which all cascades ask everybody")
    for chain in named:
        if unknown := set(chain) - set(workers):
            raise UserError(f"--cascade: no worker {min(unknown)!r} here; there are {', '.join(workers)}")
        if not 0 < len(chain) == len(set(chain)) <= _LONGEST:
            raise UserError(f"--cascade: {', '.join(chain)}: one to {_LONGEST} different workers are wanted")
    folds = split_table(table, seeds)
    chains = [c for n in range(1, min(_LONGEST, len(workers)) + 1) for c in permutations(range(len(workers)), n)]
    names = [" > ".join(workers[worker] for worker in chain) for chain in chains]
    fixed = Cascades(*map(np.stack, zip(*(chain_outcomes(replies, chain) for chain in chains), strict=True)))
    single = Cascades(fixed.success[: len(workers)], fixed.cost_usd[: len(workers)])
    always = {row: names.index(row) for row in (*workers, *(" > ".join(chain) for chain in named))}
    found: dict[str, list[tuple[Cascades, int]]] = {}
    chosen: dict[str, list[str]] = {}
    errors: list[Metrics] = []
    expected: list[tuple[Rows, Values]] = []
    for seed, split in zip(folds.seeds, folds.splits, strict=True):
        best = single.best(split.train)
        if best is None:
            raise UserError("no reply to the queries to learn from was judged, at a known cost")
        most = {OURS: budget * float(nan_mean(fixed.cost_usd[best, split.train]))}
        picked = {BEST_SINGLE: best}
        if (thrifty := fixed.best(split.train, most[OURS])) is not None:
            picked[CASCADE] = thrifty
            most[OURS_AT_CASCADE_COST] = float(nan_mean(fixed.cost_usd[thrifty, split.train]))
        queries = queries_of(table, split.train, features)
        learned, estimates = learn_cascades(replies, queries, folds.groups, split.train, seed)
        errors.append(errors_of(table, split.test, folds.weights[split.test], OURS, estimates))
        expected.append((split.test, estimates.score))
        for row, place in (always | picked).items():
            found.setdefault(row, []).append((fixed, place))
        for row, place in picked.items():
            chosen.setdefault(row, []).append(names[place])
        for row, most_usd in most.items():
            if (weight := learned.best(split.train, most_usd * (1 + 1e-9), cheapest=True)) is not None:
                found.setdefault(row, []).append((learned, weight))
                chosen.setdefault(row, []).append(f"cost counts {_WEIGHTS[weight]:.3g}")
    notes = []
    for row in (CASCADE, OURS, OURS_AT_CASCADE_COST):
        if len(found.get(row, ())) < len(folds.splits):
            found.pop(row, None)
            chosen.pop(row, None)
            notes.append(f"{row}: none costs {budget:.3g} of the best single worker or less in every split")
    metrics: Metrics = {key: np.mean([own[key] for own in errors], axis=0) for key in errors[0]}
    for row, ways in found.items():
        means = []
        for split, (cascades, place) in zip(folds.splits, ways, strict=True):
            values = np.stack([cascades.success[place, split.test], 1000 * cascades.cost_usd[place, split.test]])
            known = np.isfinite(values[0])
            weights = folds.weights[split.test[known]]
            means.append(values[:, known] @ weights / weights.sum(axis=0))
        metrics["success", row], metrics["usd_per_1000", row] = np.mean(means, axis=0)
    calibration = {OURS: reliability_of(table, expected)}
    return RepliesEvaluation(table, folds, metrics, calibration, notes, chosen, replies)
