"""Estimators are replayed on what a table knows: on queries apart, with prices of the table, and paired."""

from __future__ import annotations

import json
from dataclasses import replace

import numpy as np
import pytest
from typer.testing import CliRunner

from orchestai.cli import app
from orchestai.data.outcome_table import OutcomeTable, TableOutcome, table_of
from orchestai.errors import UserError
from orchestai.evaluation.tables.estimates import BASELINES, Fold, TableEstimates, estimate
from orchestai.evaluation.tables.evaluate import (
    calibration_errors,
    cost_errors,
    evaluate_table,
    sweep,
)

RNG = np.random.default_rng(0)
QUERIES = 400
TEXTS = [" ".join(f"w{word}" for word in RNG.integers(0, 999, 12)) for _ in range(QUERIES)]
DIRECTIONS = np.eye(2, 8, dtype=np.float32)
COSTS = {"cheap": 0.001, "expensive": 0.01}


def table(*, priced: bool = True, typed: bool = True) -> OutcomeTable:
    """Two kinds of queries, which the features tell apart: the cheap worker can do the even ones, the other all."""
    return table_of(
        "kinds",
        [
            TableOutcome(
                "",
                TEXTS[row],
                worker,
                float(worker == "expensive" or row % 2 == 0),
                id=str(row),
                task_type=("even", "odd")[row % 2] if typed else "",
                cost_usd=cost if priced else None,
            )
            for row in range(QUERIES)
            for worker, cost in COSTS.items()
        ],
    )


FEATURES = DIRECTIONS[np.arange(QUERIES) % 2]


@pytest.mark.parametrize("name", [name for name in BASELINES if name != "oracle"])
def test_every_baseline_learns_which_kind_needs_the_expensive_worker(name):
    outcomes = table(typed=name == "task_prior")
    fold = Fold(outcomes, np.arange(300), FEATURES, np.arange(QUERIES), seed=0)
    estimates = BASELINES[name](fold)
    assert estimates.score.shape == (QUERIES, 2)
    gain = estimates.score[300:, 1] - estimates.score[300:, 0]
    assert gain[1::2].min() > gain[0::2].max()
    np.testing.assert_allclose(estimates.cost_usd, [[0.001, 0.01]] * QUERIES)
    again = BASELINES[name](fold)
    np.testing.assert_array_equal(estimates.score, again.score)


@pytest.mark.parametrize("name", [name for name in BASELINES if name != "oracle"])
def test_no_baseline_looks_at_test_queries_or_needs_whole_rows(name):
    outcomes = table()
    fold = Fold(outcomes, np.arange(300), FEATURES, np.arange(QUERIES), seed=0)
    expected = BASELINES[name](fold)
    outcomes.score[300:] = 1 - outcomes.score[300:]
    outcomes.cost_usd[300:] *= 7
    np.testing.assert_array_equal(BASELINES[name](fold).score, expected.score)
    np.testing.assert_array_equal(BASELINES[name](fold).cost_usd, expected.cost_usd)
    outcomes.score[3:290, 0] = np.nan
    assert np.isfinite(BASELINES[name](fold).score).all()


def test_the_sweep_begins_without_thrift_and_ends_with_the_cheapest():
    outcomes = table()
    rows = np.arange(QUERIES)
    curve = sweep(outcomes, rows, TableEstimates(outcomes.score, outcomes.cost_usd))
    cost, score = curve.means(np.ones((QUERIES, 1)))
    assert (score[0, 0], score[-1, 0]) == (1, 0.5)
    assert cost[0, 0] == pytest.approx(0.0055)
    assert cost[-1, 0] == pytest.approx(0.001)
    assert (np.diff(cost[:, 0]) <= 0).all()


NAMES = ("task_prior", "knn", "oracle")
EVALUATION = evaluate_table(table(), FEATURES, {name: BASELINES[name] for name in NAMES}, seeds=(0, 1))


def test_a_router_that_knows_the_kinds_is_as_good_as_the_oracle():
    """At the mean cost of .0055 every query has the worker that it needs; then the curve is level."""
    cost = 0.5 * 0.001 + 0.5 * 0.01
    by_hand = ((0.5 + 1) / 2 * (cost - 0.001) + (0.01 - cost)) / 0.009
    for name in NAMES:
        assert EVALUATION.interval("aiq", name).mean == pytest.approx(by_hand, abs=0.001)
    assert EVALUATION.interval("aiq", "coin_flips").mean == pytest.approx(0.75, abs=0.001)
    assert EVALUATION.interval("apgr", "coin_flips").mean == pytest.approx(0.5)
    assert EVALUATION.interval("apgr", "knn").mean == pytest.approx(0.75, abs=0.01)
    assert EVALUATION.interval("success", "cheap").mean == 0.5
    assert EVALUATION.interval("usd_per_1000", "expensive").mean == pytest.approx(10)
    assert EVALUATION.interval("success_at_cost", "cheap", "knn").mean == pytest.approx(0.5)


def test_differences_are_paired():
    same = EVALUATION.difference("aiq", "knn", "task_prior")
    assert (same.low, same.high) == (0, 0)
    assert EVALUATION.difference("aiq", "knn", "coin_flips").low > 0
    own = EVALUATION.interval("aiq", "knn")
    assert own.low < own.mean < own.high


def test_the_command_reads_embeds_and_writes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    outcomes = table()
    with open("t.jsonl", "w") as file:
        for row in range(12):
            for column, worker in enumerate(outcomes.workers):
                cells = {
                    "q": outcomes.texts[row][:12],
                    "w": worker,
                    "s": outcomes.score[row, column],
                    "c": COSTS[worker],
                }
                file.write(json.dumps(cells) + "\n")
    words = ["evaluate", "--table", "t.jsonl", "--reader", "jsonl", "--columns", "query=q,worker=w,score=s,cost=c"]
    result = CliRunner().invoke(
        app, [*words, "--json", "t.json", "--seeds", "1", f"workers.cache_dir={tmp_path}"], catch_exceptions=False
    )
    assert result.exit_code == 0
    report = json.loads((tmp_path / "t.json").read_text())
    assert set(report["t"]["aiq"]) == {"coin_flips", "ours", *BASELINES}
    assert report["reader"] == "jsonl"
    assert any((tmp_path / "embeddings").rglob("*"))
    refused = CliRunner().invoke(app, [*words, "--labels", "30"])
    assert isinstance(refused.exception, UserError)


def test_errors_of_estimates_are_those_of_probabilities_and_of_mean_costs():
    outcomes = table()
    rows = np.arange(100)
    score = np.full_like(outcomes.score, 0.75)
    expected = TableEstimates(score, outcomes.cost_usd * [1.5, 1.0])
    weights = np.ones((100, 1))
    assert calibration_errors(outcomes, rows, weights, TableEstimates(outcomes.score, score)) == 0
    assert cost_errors(outcomes, rows, weights, expected) == pytest.approx(0.25)
    even = rows[::2]
    assert calibration_errors(outcomes, even, weights[even], expected) == pytest.approx(0.25)


def test_our_estimate_says_of_training_queries_what_it_would_without_them():
    outcomes = table(typed=False)
    noise = np.random.default_rng(1).random(outcomes.score.shape).round()
    fold = Fold(replace(outcomes, score=noise), np.arange(300), FEATURES, np.arange(QUERIES), seed=0)
    estimates = estimate(fold)
    error = np.abs(estimates.score - noise)
    assert error[:300].mean() == pytest.approx(error[300:].mean(), abs=0.02)


def test_our_estimate_learns_which_kind_needs_the_expensive_worker():
    fold = Fold(table(typed=False), np.arange(300), FEATURES, np.arange(QUERIES), seed=0)
    estimates = estimate(fold)
    gain = estimates.score[300:, 1] - estimates.score[300:, 0]
    assert gain[1::2].min() > gain[0::2].max()
