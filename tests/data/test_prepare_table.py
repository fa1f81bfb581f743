"""A table becomes a pool that runs without a key, and a planner that asks each query of whom it pays to ask."""

from __future__ import annotations

import json
from dataclasses import replace
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console
from typer.testing import CliRunner

from orchestai.cli import app
from orchestai.config import Config, load_config
from orchestai.data.prepare_table import prepare_table, refuse_overwriting
from orchestai.data.table_estimate import table_attempts, table_estimate
from orchestai.data.tables import read_cards, read_outcome_table
from orchestai.data.tables.long_form import parse_columns
from orchestai.data.tables.outcome_file import write_outcomes
from orchestai.data.tables.outcome_table import OutcomeTable, TableOutcome, table_of
from orchestai.data.training_file import load_training_data
from orchestai.errors import InfrastructureError, UserError
from orchestai.estimate.attempts import Queries
from orchestai.estimate.pool_estimate import fit_pool_estimate
from orchestai.estimate.step_attempts import WHOLE
from orchestai.execution.runtime import open_runtime
from orchestai.outcome import Scored, Unscorable
from orchestai.planner.baselines.reference import WholePlanner
from orchestai.planner.checkpoint import load_planner, open_checkpoint
from orchestai.planner.outlook import PoolOutlook
from orchestai.planner.routing import RoutingPlanner
from orchestai.rewards.recorded_scores import scores_by_answer
from orchestai.tasks.splits import open_splits
from orchestai.tasks.task import Task
from orchestai.training.supervised.train import train
from orchestai.workers.base import Request, Signature, WorkerCard
from orchestai.workers.kinds.recorded import RecordedReplies, RecordedWorker

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


def test_names_and_cards_of_others_are_taken_as_they_are(tmp_path):
    """Brackets are no markup, and what looks like an interpolation reads nothing."""
    words = "${oc.env:HOME} [/b]"
    named = replace(table(30), workers=("cheap", words)).with_cards({"cheap": words})
    report = prepare_table(named, Config(workers={"cache_dir": tmp_path}), tmp_path / "t.json")
    pool = load_config(report.config).workers.pool
    assert (pool["cheap"].card, pool[words].card) == (words, words)
    unpriced = replace(report, unpriced=(words,), dropped={words: 1})
    printed = StringIO()
    Console(file=printed, width=200).print(unpriced.table())
    assert printed.getvalue().count(words) == 2


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


async def test_a_recorded_reply_answers_under_the_wanted_name_and_nothing_else():
    rows = [{"worker": "w", "query": "Double it.", "reply": "```python\ndef twice(x):\n    return 2 * x\n```"}]
    worker = RecordedWorker(WorkerCard("w", "w", 0.5, "model"), RecordedReplies(rows), 0.5)
    answer = await worker.answer(Request("double it", signature=Signature("double", ("x",))))
    namespace: dict = {}
    exec(answer.text, namespace)
    assert namespace["double"](4) == 8
    assert (answer.cost_usd, answer.usage_estimated) == (0.5, True)  # none was recorded: the worker's usual one
    assert worker.worst_case(Request("double it")).cost_usd == 0.5
    with pytest.raises(InfrastructureError, match="no recorded reply"):
        await worker.answer(Request("triple it"))


def test_an_answer_that_was_scored_differently_has_no_score():
    assert list(scores_by_answer([("A", 1.0), ("A ", 1.0), ("B", 0.0), ("B", 1.0)]).values()) == [1.0]


def test_a_table_survives_being_written(tmp_path):
    first = table(6).with_cards({"cheap": "Small and quick."})
    write_outcomes(tmp_path / "t.jsonl.gz", first)
    again = read_outcome_table([tmp_path / "t.jsonl.gz"], "jsonl")
    assert again.digest == first.digest
    assert np.isnan(again.score[0, 1])
    assert again.replies == first.replies


def test_a_missing_cell_is_no_attempt_and_a_check_splits_passing_from_being_right():
    visible = np.array([[1.0, 1.0], [1.0, 0.0]])
    attempts = table_attempts(table(2), np.zeros(2), visible)
    assert list(zip(attempts.row.tolist(), attempts.worker.tolist(), strict=True)) == [(0, 0), (1, 0), (1, 1)]
    assert attempts.workers == ("expensive", "cheap")
    tried, won = attempts.counts()
    np.testing.assert_array_equal(tried[1], [1, 1, 1, 0])
    np.testing.assert_array_equal(won[1], [1, 0, 1, 0])


def half_measured(cost_usd: float | None) -> OutcomeTable:
    """A worker of which every second cost is known, and no latency."""
    costs = [cost_usd if row % 2 else None for row in range(60)]
    outcomes = [
        TableOutcome("", query(row), "cheap", float(row % 3 > 0), cost_usd=usd) for row, usd in enumerate(costs)
    ]
    return table_of("half", outcomes)


def test_what_nobody_measured_is_not_free(tmp_path):
    """As zeros, missing costs halved what a worker was expected to cost."""
    estimate = table_estimate(half_measured(0.002), np.array([0.002]), tmp_path)
    assert estimate is not None
    assert estimate.typical_usd == pytest.approx(0.002)
    for step in estimate.steps(estimate.known):
        assert step.spending[0, 0] == pytest.approx(0.002, rel=0.05)
    [text] = half_measured(None).texts[:1]
    for usd, priced in ((0.002, True), (None, False)):
        outlook = PoolOutlook(table_estimate(half_measured(usd), np.array([0.0]), tmp_path))
        [plan] = WholePlanner("cheap").plan([Task(task_id="1", suite="half", instruct_prompt=text)])
        forecast, whole = outlook.of(plan, text).forecast(plan.workflow), outlook.whole(text, ["cheap"])
        assert (forecast.cost_usd is not None, whole.cost_usd is not None, forecast.seconds) == (priced, priced, None)


def test_an_empty_cell_of_a_csv_file_is_no_reply(tmp_path):
    (tmp_path / "t.csv").write_text("query,worker,score,reply\na b c,cheap,1,\nd e f,cheap,0,yes\n")
    assert read_outcome_table([tmp_path / "t.csv"], "csv").replies == ((None,), ("yes",))


def test_of_equal_queries_the_first_reply_is_replayed_and_that_is_said(tmp_path):
    settings = load_config(Path("config.yaml"), [f"workers.cache_dir={tmp_path}"])
    known = table(30)
    twice = replace(known, texts=(*known.texts[:-1], known.texts[0] + " "))
    for queries, replies, repeated in ((known, 59, []), (twice, 58, [1])):
        report = prepare_table(queries, settings, tmp_path / "t.json")
        assert report.replies == replies, "the cheap worker was not asked for query 0"
        assert [count for reason, count in report.dropped.items() if "the first is replayed" in reason] == repeated
    replayed = RecordedReplies.read(tmp_path / "t.outcomes.jsonl.gz")
    assert replayed.find("expensive", known.texts[0]).text == "expensive says 0"


def test_the_pool_that_is_configured_is_kept(tmp_path):
    """Outcomes of others are of no use to it, and are counted."""
    pool = {"cheap": {"kind": "tool", "tool": "calculator", "card": "mine"}}
    report = prepare_table(table(30), Config(workers={"pool": pool, "cache_dir": tmp_path}), tmp_path / "t.json")
    assert report.config is None
    assert report.dropped["an outcome of a worker that is not in workers.pool"] == 30


def test_cards_come_from_a_column_or_a_file(tmp_path):
    rows = [{"q": "a b c", "m": name, "s": 1, "what": f"{name}, a model"} for name in WORKERS]
    (tmp_path / "t.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    columns = parse_columns(["query=q,worker=m,score=s,card=what"])
    described = read_outcome_table([tmp_path / "t.jsonl"], "jsonl", columns)
    assert described.cards == {"cheap": "cheap, a model", "expensive": "expensive, a model"}
    (tmp_path / "cards.yaml").write_text("cheap: Small and quick.\n")
    assert described.with_cards(read_cards(tmp_path / "cards.yaml")).cards["cheap"] == "Small and quick."
    (tmp_path / "words.yaml").write_text("no mapping " * 500)
    with pytest.raises(UserError, match="is no text; write WORKER") as refused:
        read_cards(tmp_path / "words.yaml")
    assert len(str(refused.value)) < 300
    with pytest.raises(UserError, match=r"no worker 'chaep'.*did you mean 'cheap'"):
        described.with_cards({"chaep": "?"})


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


def test_the_command_writes_over_no_table_and_says_how_many_outcomes_it_needs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write_outcomes("t.outcomes.jsonl.gz", table(8))
    words = ["prepare-table", "--from-table", "t.outcomes.jsonl.gz", "--reader", "jsonl", "--output"]
    for output in ("t.json", "t.outcomes.jsonl.gz"):
        refused = CliRunner().invoke(app, [*words, output])
        assert "name another file" in str(refused.exception)
        assert not Path("t.json").exists()
    for name in ("t.tasks.jsonl", "t.yaml", "t.meta.json", "t.estimate.pt"):
        with pytest.raises(UserError, match=f"{name} would be written over {name}, which is read"):
            refuse_overwriting(Path("t.json"), [Path("other.csv"), Path(name)])
    Path("config.yaml").write_text("{}")
    refused = CliRunner().invoke(app, [*words, "config.json"])
    assert "config.yaml would be written over config.yaml" in str(refused.exception)
    Path("config.yaml").unlink()
    with pytest.raises(UserError, match=r"would be written into the folder \., which is read"):
        refuse_overwriting(Path("t.json"), [Path(".")])
    result = CliRunner().invoke(app, [*words, "few.json"])
    assert result.exit_code == 0, result.output
    assert "too few outcomes" in result.output
    assert "20 of queries" in result.output
    assert "next:" not in result.output
    for part in ("train", "validation", "test"):
        assert f"queries: {part}" in result.output


def test_a_query_is_of_the_kind_of_those_that_say_nearly_the_same():
    """Tables name kinds of queries, and nobody names them when they are asked."""
    rng = np.random.default_rng(0)
    kind = rng.integers(2, size=200)
    near = np.eye(2, 6)[kind] + rng.normal(0, 0.05, (200, 6))
    score = np.stack([kind, 1 - kind], axis=1).astype(float)
    cells = [
        TableOutcome(
            "", f"query {row}", worker, score[row, column], id=str(row), task_type="ab"[kind[row]], cost_usd=1.0
        )
        for row in range(200)
        for column, worker in enumerate(WORKERS)
    ]
    attempts = table_attempts(table_of("kinds", cells), np.ones(2))
    embeddings = near / np.linalg.norm(near, axis=1, keepdims=True)
    estimate = fit_pool_estimate(attempts, embeddings, kinds=["ab"[one] for one in kind], folds=attempts.row % 5)
    assert estimate is not None
    new = Queries(("one", "another"), (WHOLE, WHOLE), np.eye(2, 6))
    expected = [step.asking((0,))[0] for step in estimate.steps(new)]
    assert expected[0] < 0.2 < 0.8 < expected[1]
