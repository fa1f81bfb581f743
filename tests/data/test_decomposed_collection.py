"""A user's tasks have no reference decomposition: collection splits them, says who did, and pays for it once."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestai.config import Config
from orchestai.data.collect import Collected, Collection, collect
from orchestai.execution.log import ExecutionLog, read_log
from orchestai.execution.record import ExecutionRecord
from orchestai.execution.running_workflow import JudgingExecutor
from orchestai.planner.registry import planner_for
from orchestai.sandbox import Sandbox
from orchestai.tasks.task import Task
from orchestai.workers.pool import WorkerPool
from orchestai.workflow import Workflow
from support.models.chat_server import ChatServer, Reply, chat, serving

FIRST, SECOND = "Compute 2 + 3. Then, compute 4 + 5.", "Compute 6 - 1. Then, compute 7 - 5. Then, compute 1 + 1."
TASKS = [
    Task(task_id=str(i), suite="own", instruct_prompt=instruction, answers=(answer,), scorer="numeric")
    for i, (instruction, answer) in enumerate([(FIRST, "9"), (SECOND, "2")])
]
STEPS = [
    {"id": "1", "instruction": "Compute 2 + 3", "task_type": "integer", "worker": "sums"},
    {"id": "2", "instruction": "compute 4 + 5", "task_type": "integer", "worker": "sums", "depends_on": ["1"]},
]
PLAN = Reply(chat(json.dumps({"subtasks": STEPS})))
PAID = 11 * 0.01 + 3 * 0.1


@pytest.fixture
def server() -> Iterator[ChatServer]:
    with serving() as running:
        yield running


async def run(
    folder: Path, server: ChatServer | None, tasks: list[Task], repetitions: int = 2
) -> tuple[Collected, list[ExecutionRecord]]:
    prices = {"price_per_mtok_in_usd": 10_000.0, "price_per_mtok_out_usd": 100_000.0}
    api = {"kind": "openai_api", "name": "tiny", "base_url": server.url if server else "", "max_retries": 0, **prices}
    config = Config.model_validate(
        {
            "planner": {"base": "none"},
            "workers": {
                "models": {"m": api} if server else {},
                "pool": {"sums": {"kind": "tool", "tool": "calculator", "card": "Adds.", "price_per_call_usd": 0.125}},
                "planner_model": "m" if server else None,
                "cache_dir": None,
            },
            "execution": {"concurrency": 1},
        }
    )
    log = ExecutionLog(folder)
    with Sandbox(workers=1) as sandbox:
        async with WorkerPool.from_config(config.workers, sandbox) as pool:
            state = await collect(
                Collection(tasks, repetitions * len(tasks), "reference/0", pool.names, unscorable_limit=1),
                planner_for("reference", config.planner, config.workers, pool, 0, tasks),
                JudgingExecutor(pool, sandbox, config.execution),
                log,
            )
    return state, sorted(read_log(folder).records, key=lambda record: (record.task_id, record.repetition))


async def test_the_language_model_decomposes_and_the_rules_where_it_gives_no_plan(tmp_path, server, caplog):
    asked = [task for task, _ in Collection(TASKS, 2, "", ()).jobs()]
    server.script = [PLAN if task is TASKS[0] else Reply(chat("I would rather not.")) for task in asked]
    state, records = await run(tmp_path, server, TASKS)
    assert "'m'" in caplog.text
    by_model, by_rules = records[:2], records[2:]
    assert [record.decomposed_by for record in records] == ["m", "m", "heuristic", "heuristic"]
    assert [len(record.subtasks) for record in records] == [2, 2, 3, 3]
    assert all(record.success and record.scorer == "numeric" for record in records)
    for repeated in (by_model, by_rules):
        assert [record.planning and record.planning.cost_usd for record in repeated] == [pytest.approx(PAID), None]
    assert len(server.asked) == 2
    assert state.cost_usd == pytest.approx(2 * PAID + 0.125 * 10)
    assert dict(state.decomposed) == {"m": 2, "heuristic": 2}


async def test_without_a_model_the_rules_decompose_and_a_known_reference_stands(tmp_path, caplog):
    reference = Workflow(STEPS).replace({"1": {"worker": ""}, "2": {"worker": ""}})
    _, records = await run(tmp_path, None, [TASKS[0].model_copy(update={"reference": reference}), TASKS[1]], 1)
    assert [(record.decomposed_by, record.planning) for record in records] == [("", None), ("heuristic", None)]
    assert "1 of 2 tasks have no reference decomposition" in caplog.text
