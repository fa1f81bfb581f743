"""Whole collections on a real server that fails: what is nobody's fault has no score, and is done by the next run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from orchestai.config import Config, ExecutionConfig, WorkersConfig
from orchestai.data.collect import Collected, Collection, collect
from orchestai.errors import FaultKind
from orchestai.execution.log import ExecutionLog, read_log
from orchestai.execution.record import ExecutionRecord
from orchestai.execution.running_workflow import JudgingExecutor
from orchestai.planner.baselines import WholePlanner
from orchestai.planner.registry import planner_for
from orchestai.sandbox import Sandbox
from orchestai.tasks.task import Task
from orchestai.workers import openai_api
from orchestai.workers.base import Usage
from orchestai.workers.pool import WorkerPool
from support.models.chat_server import ChatServer, Reply, chat, error, serving


async def run_llm(server: ChatServer, sandbox: Sandbox, folder: Path, tasks: int) -> Collected:
    """The `llm` planner asks one model for plans, which give all to a tool."""
    config = Config(
        workers=WorkersConfig.model_validate(
            {
                "models": {
                    "m": {
                        "kind": "openai_api",
                        "name": "tiny",
                        "base_url": server.url,
                        "max_retries": 1,
                        "price_per_mtok_in_usd": 10_000.0,
                        "price_per_mtok_out_usd": 100_000.0,
                    }
                },
                "pool": {"sum": {"kind": "tool", "tool": "calculator", "card": "Adds.", "price_per_call_usd": 0.125}},
                "planner_model": "m",
                "cache_dir": folder / "cache",
            }
        ),
        execution=ExecutionConfig(concurrency=1),
    )
    async with WorkerPool.from_config(config.workers, sandbox) as pool:
        told = [task.model_copy(update={"instruct_prompt": f"add {task.task_id}"}) for task in TASKS[:tasks]]
        return await collect(
            Collection(told, tasks, "llm", pool.names),
            planner_for("llm", config.planner, config.workers, pool, 0),
            JudgingExecutor(pool, sandbox, config.execution),
            ExecutionLog(folder / "logs"),
        )


PLAN = Reply(chat('{"id": "1", "instruction": "add", "task_type": "integer", "worker": "sum", "depends_on": []}]}'))


TEST = (
    "import unittest\n\n\nclass T(unittest.TestCase):\n    def test(self):\n        self.assertEqual(task_func(1), 2)\n"
)
TASKS = [Task(task_id=str(i), suite="s", instruct_prompt=f"Task {i}", test=TEST, parameters=("x",)) for i in range(30)]
RIGHT = Reply(chat("```python\ndef task_func(x):\n    return x + 1\n```"))
PRICED = {"price_per_call_usd": 0.5, "price_per_mtok_in_usd": 10_000.0, "price_per_mtok_out_usd": 100_000.0}
"""An answer of 11 and 3 tokens costs 0.5 + 0.11 + 0.3."""


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatServer]:
    monkeypatch.setattr(openai_api, "FIRST_WAIT_S", 0.001)
    with serving() as running:
        running.after = RIGHT
        yield running


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(workers=2) as sandbox:
        yield sandbox


async def run(
    server: ChatServer, sandbox: Sandbox, folder: Path, tasks: int, limit: float = 0.2, **execution: Any
) -> Collected:
    config = WorkersConfig.model_validate(
        {
            "models": {"m": {"kind": "openai_api", "name": "tiny", "base_url": server.url, "max_retries": 1}},
            "pool": {"whole": {"kind": "model", "model": "m", "card": "All.", "strategy": "chat", **PRICED}},
            "cache_dir": folder / "cache",
        }
    )
    async with WorkerPool.from_config(config, sandbox) as pool:
        return await collect(
            Collection(TASKS[:tasks], tasks, "whole", pool.names, unscorable_limit=limit),
            lambda repetition: WholePlanner("whole"),
            JudgingExecutor(pool, sandbox, ExecutionConfig(concurrency=1, **execution)),
            ExecutionLog(folder / "logs"),
        )


def logged(folder: Path) -> list[ExecutionRecord]:
    contents = read_log(folder / "logs")
    assert not contents.problems
    return contents.records


@pytest.mark.parametrize(
    ("reply", "kind"),
    [
        (Reply(error("no such field"), 400), "bad_request"),
        (Reply(chat(choices=[])), "bad_response"),
        (Reply(error("upstream is down")), "bad_response"),
        (Reply(b"<html>log in</html>", content_type="text/html"), "bad_response"),
        (Reply(error("down"), 503), "server"),
    ],
)
async def test_a_fault_of_the_server_is_no_score_and_is_done_by_the_next_run(
    server: ChatServer, sandbox: Sandbox, tmp_path: Path, reply: Reply, kind: FaultKind
) -> None:
    """They were logged as failures, scored 0, which no later run asked again; or ended the command."""
    server.script = [reply] * (1 if kind == "bad_request" else 2)
    first = await run(server, sandbox, tmp_path, 6)
    assert (first.executed, first.unscorable, first.succeeded) == (6, 1, 5)
    (lost,) = [record for record in logged(tmp_path) if record.outcome == "unscorable"]
    assert (lost.fault, lost.score, lost.cost) == (kind, None, 0.0)
    asked = len(server.asked)
    second = await run(server, sandbox, tmp_path, 6)
    assert (second.continued, second.executed, second.succeeded) == (5, 1, 6)
    assert len(server.asked) == asked + 1
    assert {record.task_id for record in logged(tmp_path) if record.success} == set("012345")


async def test_what_the_worker_cannot_do_is_its_failure_and_costs_what_was_paid(
    server: ChatServer, sandbox: Sandbox, tmp_path: Path
) -> None:
    too_long = Reply(error("maximum context length is 8 tokens", code="context_length_exceeded"), 400)
    server.script = [too_long, Reply(chat("", "content_filter"))]
    state = await run(server, sandbox, tmp_path, 6)
    assert (state.executed, state.unscorable, state.succeeded) == (6, 0, 4)
    failed = [record for record in logged(tmp_path) if not record.success]
    assert [(record.outcome, record.score) for record in failed] == [("scored", 0.0)] * 2
    assert sorted(record.cost for record in failed) == [0.0, pytest.approx(0.91)]
    assert state.cost_usd == pytest.approx(5 * 0.91)


async def test_the_planners_own_calls_are_paid_for_and_logged(
    server: ChatServer, sandbox: Sandbox, tmp_path: Path
) -> None:
    """They were free, and nowhere to be seen."""
    server.after = PLAN
    state = await run_llm(server, sandbox, tmp_path, 3)
    records = logged(tmp_path)
    assert [len(record.subtasks) for record in records] == [1, 1, 1]
    for record in records:
        assert record.planning is not None
        asked = Usage(requests=1, prompt_tokens=11, completion_tokens=3, cost_usd=0.41, latency_ms=1.0)
        assert record.planning.model_copy(update={"latency_ms": 1.0}) == asked
        assert record.planning.latency_ms > 0
    assert state.cost_usd == pytest.approx(3 * 0.41 + sum(record.cost for record in records))
    server.after = Reply(chat("no plan at all"))
    state = await run_llm(server, sandbox, tmp_path / "invalid", 1)
    (failed,) = logged(tmp_path / "invalid")
    assert (failed.outcome, failed.score, failed.cost) == ("scored", 0.0, 0.0)
    assert state.cost_usd == pytest.approx(0.41), "a plan that is none was paid for too"
