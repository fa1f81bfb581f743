"""A table becomes a pool that runs without a key, and a planner that asks each query of whom it pays to ask."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from typer.testing import CliRunner

from orchestai import Contract, Orchestrator
from orchestai.cli import app
from orchestai.config import Config, load_config
from orchestai.data.outcome_table import OutcomeTable, TableOutcome, table_of
from orchestai.data.prepare_table import (
    prepare_table,
    table_attempts,
    write_outcomes,
)
from orchestai.data.training_file import load_training_data
from orchestai.errors import UserError
from orchestai.execution.contract.trimming import ContractError
from orchestai.execution.runtime import open_runtime
from orchestai.outcome import Scored, Unscorable
from orchestai.planner.baselines import WholePlanner
from orchestai.planner.checkpoint import load_planner, open_checkpoint
from orchestai.planner.forecast import RoutingPlanner
from orchestai.tasks.splits import open_splits
from orchestai.tasks.task import Task
from orchestai.training.supervised.train import train

CITIES = (
    "Oslo",
    "Rome",
    "Cairo",
    "Lima",
    "Tokyo",
    "Delhi",
    "Paris",
    "Quito",
    "Accra",
    "Hanoi",
    "Seoul",
    "Bern",
    "Riga",
)
WORKERS = ("cheap", "expensive")


def query(row: int) -> str:
    """Even ones are about cities, odd ones are sums."""
    city, other = CITIES[row % len(CITIES)], CITIES[(row // len(CITIES) + row + 1) % len(CITIES)]
    return f"Is {city} a larger city than {other}?" if row % 2 == 0 else f"Compute {row * 37} * {row * 91} + {row}."


def table(rows: int = 80) -> OutcomeTable:
    """The cheap worker knows cities as well as the expensive one, and fails at sums; it was not asked for query 0."""
    return table_of(
        "mine",
        [
            TableOutcome(
                "",
                query(row),
                worker,
                float(worker == "expensive" or row % 2 == 0),
                id=f"q{row}",
                cost_usd=0.001 if worker == "cheap" else 0.01,
                reply=f"{worker} says {row}",
            )
            for row in range(rows)
            for worker in WORKERS
            if (row, worker) != (0, "cheap")
        ],
    )


@pytest.fixture
def prepared(tmp_path: Path) -> Config:
    settings = load_config(Path("config.yaml"), ["rewards.cost_weight=0.3", f"workers.cache_dir={tmp_path / 'cache'}"])
    report = prepare_table(table(), settings, tmp_path / "mine.json")
    assert report.config == tmp_path / "mine.yaml"
    assert report.replies == 159
    assert report.queries["test"] + report.queries["train"] + report.queries["validation"] == 80
    return load_config(report.config)


def test_the_planner_asks_whom_it_pays_to_ask(prepared, tmp_path):
    """Imitating the best single choice asked one worker for everything, whatever the query."""
    train(prepared, data=tmp_path / "mine.json", output_dir=tmp_path)
    planner = open_checkpoint(tmp_path / "phase1_best.pth", prepared.planner, prepared.workers)
    assert isinstance(planner, RoutingPlanner)
    examples = load_training_data(tmp_path / "mine.json", prepared)
    held_out = [row for row in range(80) if query(row) not in {example.instruction for example in examples}]
    tasks = [Task(task_id=str(row), suite="mine", instruct_prompt=query(row)) for row in held_out]
    plans = planner.plan(tasks)
    asked = [plan.workflow.subtasks[0].worker for plan in plans]
    assert asked == ["cheap" if row % 2 == 0 else "expensive" for row in held_out]
    assert [plan.workflow.subtasks[0].instruction for plan in plans] == [task.instruction for task in tasks]
    with pytest.raises(UserError, match="no weights to train"):
        load_planner(tmp_path / "phase1_best.pth", prepared.planner, prepared.workers)


async def test_answers_of_a_recorded_pool_are_judged_under_a_contract(tmp_path):
    """Whom it may ask is in the worst case; verdicts and answers that are not paid for decide nothing."""
    rng = np.random.default_rng(0)
    skills = {"one": 0.75, "two": 0.75, "three": 0.75}
    right = {(row, worker): rng.random() < skill for row in range(120) for worker, skill in skills.items()}
    said = {key: "7" if right[key] else str(rng.integers(8, 40)) for key in right}
    cells = [
        TableOutcome("", query(2 * row + 1), worker, float(good), id=f"q{row}", cost_usd=0.01, reply=said[row, worker])
        for (row, worker), good in right.items()
    ]
    cells += [replace(cell, worker="dear", score=1.0, cost_usd=0.05, reply="7") for cell in cells[::3]]
    settings = load_config(Path("config.yaml"), ["planner.kind=whole"])
    config = load_config(prepare_table(table_of("mine", cells), settings, tmp_path / "mine.json").config)
    train(config, data=tmp_path / "mine.json", output_dir=tmp_path)
    tested = [query(2 * row + 1) for row in range(30)]
    async with Orchestrator.open(tmp_path / "phase1_best.pth", config, log=None) as orchestrator:
        results = [await orchestrator.run(text, Contract(max_cost_usd=0.04), answer="text") for text in tested]
        with pytest.raises(ContractError, match="no choice of workers"):
            await orchestrator.run(tested[0], Contract(max_cost_usd=0.04, min_success=0.999), answer="text")
    steps = [result.execution.results[0] for result in results]
    assert {len(step.attempts) for step in steps} >= {2, 3}
    assert np.mean([result.answer == "7" for result in results]) > 0.75
    for result, step in zip(results, steps, strict=True):
        assert result.receipt.success == step.probability
        assert result.receipt.reserved_usd == pytest.approx(0.01 * len(result.workflow.subtasks[0].workers))
        assert result.receipt.spent_usd == pytest.approx(0.01 * len(step.attempts))


def test_prices_come_from_what_is_learned_from(prepared, tmp_path):
    """A pool that knows what the queries for tests cost would be measured with it."""
    seen = {example.task_id for example in load_training_data(tmp_path / "mine.json", prepared)}
    costs = table()
    costs.cost_usd[[row for row, name in enumerate(costs.ids) if name not in seen]] = 5.0
    report = prepare_table(costs, load_config(Path("config.yaml")), tmp_path / "dear.json")
    pool = load_config(report.config).workers.pool
    assert {name: worker.price_per_call_usd for name, worker in pool.items()} == pytest.approx(
        {"cheap": 0.001, "expensive": 0.01}
    )


def test_a_worker_whose_costs_nobody_measured_is_not_free(tmp_path):
    costs = table()
    costs.cost_usd[:, costs.workers.index("expensive")] = np.nan
    settings = load_config(Path("config.yaml"), [f"workers.cache_dir={tmp_path / 'cache'}"])
    report = prepare_table(costs, settings, tmp_path / "t.json")
    pool = load_config(report.config).workers.pool
    assert {name: worker.price_per_call_usd for name, worker in pool.items()} == pytest.approx(
        {"cheap": 0.001, "expensive": 0.001}
    )
    assert report.unpriced == ("expensive",)
    costs.cost_usd[:] = np.nan
    free = prepare_table(costs, settings, tmp_path / "free.json")
    assert free.unpriced == ()
    assert {worker.price_per_call_usd for worker in load_config(free.config).workers.pool.values()} == {0}


async def test_a_recorded_pool_replays_and_judges_without_a_key(prepared):
    """What nobody recorded would be a zero if it were judged."""
    splits = open_splits(prepared.tasks)
    tasks = {task.instruction: task for task in [*splits.train, *splits.validation, *splits.test]}
    asked = [tasks[query(row)] for row in (2, 3, 0)]
    plans = [plan.workflow for plan in WholePlanner("cheap").plan(asked)]
    async with open_runtime(prepared.workers, prepared.execution, prepared.sandbox) as runtime:
        known, wrong, missing = [await runtime.executor.execute(*each) for each in zip(asked, plans, strict=True)]
    assert (known.answer, known.success, known.total_cost) == ("cheap says 2", True, 0.001)
    assert wrong.outcome == Scored(0.0)
    assert isinstance(missing.outcome, Unscorable)
    assert missing.outcome.kind == "recording_missing"


def test_a_missing_cell_is_no_attempt_and_a_check_splits_passing_from_being_right():
    visible = np.array([[1.0, 1.0], [1.0, 0.0]])
    attempts = table_attempts(table(2), np.zeros(2), visible)
    assert list(zip(attempts.row.tolist(), attempts.worker.tolist(), strict=True)) == [(0, 0), (1, 0), (1, 1)]
    assert attempts.workers == ("expensive", "cheap")
    tried, won = attempts.counts()
    np.testing.assert_array_equal(tried[1], [1, 1, 1, 0])
    np.testing.assert_array_equal(won[1], [1, 0, 1, 0])


def test_the_command_writes_what_train_phase1_reads(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_outcomes(tmp_path / "t.jsonl", table(40))
    Path("t.jsonl").rename("t.jsonl.gz")
    words = ["prepare", "--from-table", "t.jsonl.gz", "--reader", "jsonl", "--output", "out/data.json"]
    result = CliRunner().invoke(app, words)
    assert result.exit_code == 0, result.output
    assert "no replies" not in " ".join(result.output.split())
    assert "train-phase1 --config out/data.yaml --data out/data.json" in result.output
    result = CliRunner().invoke(app, ["train-phase1", "--config", "out/data.yaml", "--data", "out/data.json"])
    assert result.exit_code == 0, result.output
    assert "phase1_best.pth: asks whole tasks" in result.output
    assert Path("checkpoints/phase1_best.pth").exists()
