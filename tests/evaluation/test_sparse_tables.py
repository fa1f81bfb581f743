"""Tables in which much was not measured: who cannot be chosen moves no figure, and what is not known is said."""

from __future__ import annotations

from io import StringIO

import numpy as np
import pytest
from rich.console import Console

from orchestai.data.tables.outcome_table import OutcomeTable, TableOutcome, table_of
from orchestai.errors import UserError
from orchestai.evaluation.tables.baselines import BASELINES
from orchestai.evaluation.tables.folds import split_table
from orchestai.evaluation.tables.new_worker import leave_one_worker_out
from orchestai.evaluation.tables.routing_metrics import apgr, calls_curve
from orchestai.evaluation.tables.table_evaluation import TableEvaluation, evaluate_table
from orchestai.evaluation.tables.table_report import to_table

RNG = np.random.default_rng(0)
TEXTS = [" ".join(f"w{word}" for word in RNG.integers(0, 9999, 8)) for _ in range(100)]
RIGHT = RNG.random((100, 2)) < (0.4, 0.8)
FEATURES = RNG.normal(size=(100, 8)).astype(np.float32)


def table(*others: TableOutcome, priced: bool = True) -> OutcomeTable:
    measured = [
        TableOutcome("", text, worker, float(right[column]), cost_usd=(0.001, 0.01)[column] if priced else None)
        for text, right in zip(TEXTS, RIGHT, strict=True)
        for column, worker in enumerate("ab")
    ]
    return table_of("t", [*measured, *others])


def evaluated(outcomes: OutcomeTable) -> TableEvaluation:
    return evaluate_table(outcomes, FEATURES, {name: BASELINES[name] for name in ("task_prior", "oracle")})


@pytest.mark.parametrize("cost", [0.1, 0.0001])
def test_a_worker_that_was_never_scored_moves_no_bound(cost):
    """Its cost in each row stretched the costs over which AIQ is a mean: .825 or .538 instead of .575."""
    with_it = evaluated(table(*(TableOutcome("", text, "c", None, cost_usd=cost) for text in TEXTS)))
    without = evaluated(table())
    for metric in ("aiq", "hypervolume"):
        for router in without.routers(metric):
            assert with_it.interval(metric, router).mean == without.interval(metric, router).mean
    assert "no outcome of c can be used" in with_it.notes


def test_coins_are_tossed_between_workers_that_can_be_chosen():
    """Tossing coins had .967, at nobody knows what cost, and the oracle .683."""
    evaluation = evaluated(table(*(TableOutcome("", text, "c", 1.0) for text in TEXTS)))
    assert evaluation.interval("success", "coin_flips").mean <= evaluation.interval("success", "oracle").mean
    assert np.isfinite(evaluation.interval("usd_per_1000", "coin_flips").mean)


def test_every_row_has_its_name_where_a_terminal_has_eighty_columns():
    written = StringIO()
    evaluation = evaluated(table())
    Console(file=written, width=80).print(to_table(evaluation))
    for router in evaluation.routers("success"):
        assert f"│ {router} " in written.getvalue()


def test_what_a_new_worker_brings_is_unknown_where_it_was_not_tested():
    """A KeyError: nothing compared the two in some test part."""
    few = [TableOutcome("", text, "b", 1.0) for text in TEXTS[:8]]
    most = [TableOutcome("", text, "a", float(right[0])) for text, right in zip(TEXTS, RIGHT, strict=True)]
    found = leave_one_worker_out(table_of("t", [*most, *few]), FEATURES)
    assert found.metric == "apgr"
    assert found.values.keys() == {"full", "0", "20", "50"}


def test_missing_costs_are_not_said_to_be_near_duplicates():
    costs = [TableOutcome("", text, w, 1.0, cost_usd=0.1 if text == TEXTS[0] else None) for text in TEXTS for w in "ab"]
    with pytest.raises(UserError, match=r"only 1 of 100 queries have an outcome with a score and a cost.*cost_usd="):
        split_table(table_of("t", costs), (0,))


def test_a_split_that_says_nothing_of_calls_leaves_the_others_their_figure():
    """One NaN among three made all NaN, and no note said why."""
    right = np.random.default_rng(0).random((20, 2)) < (0.5, 0.6)
    few = [
        TableOutcome("", text, worker, float(right[row, column]))
        for row, text in enumerate(TEXTS[:20])
        for column, worker in enumerate("ab")
    ]
    evaluation = evaluated(table_of("t", few))
    assert evaluation.uncompared == 1
    assert np.isfinite(evaluation.interval("apgr", "oracle").mean)
    assert "apgr and cpt leave out 1 of 3 splits" in " ".join(evaluation.notes)


def test_of_no_query_nobody_knows_what_calls_bring():
    nothing = np.zeros(0)
    assert np.isnan(apgr(*calls_curve(nothing, nothing, nothing)))


def test_a_type_of_which_no_query_is_tested_is_named():
    alike = [f"the same question is asked of everybody here again and again, number {row}" for row in range(50)]
    same = [TableOutcome("", text, w, 1.0, task_type="alike", cost_usd=0.1) for text in alike for w in "ab"]
    assert "no query of alike was tested: near-duplicates of each other, or not measured" in evaluated_with(same).notes


def evaluated_with(others: list[TableOutcome]) -> TableEvaluation:
    outcomes = table(*others)
    features = RNG.normal(size=(len(outcomes), 8)).astype(np.float32)
    return evaluate_table(outcomes, features, {"task_prior": BASELINES["task_prior"]})
