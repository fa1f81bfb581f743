"""Whole collections on a real server that fails: what is nobody's fault has no score, and is done by the next run."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from orchestai.config import Config, ExecutionConfig, WorkersConfig
from orchestai.data.collect import Collected, Collection, collect
from orchestai.errors import FaultKind, UserError
from orchestai.execution.judging import JudgingExecutor
from orchestai.execution.log import ExecutionLog, read_log
from orchestai.execution.record import ExecutionRecord
from orchestai.planner.baselines.reference import WholePlanner
from orchestai.planner.registry import planner_for
from orchestai.sandbox import Sandbox
from orchestai.tasks.task import Task
from orchestai.workers import openai_api
from orchestai.workers.base import Usage
from orchestai.workers.pool import WorkerPool
from orchestai.workers.prices import Prices, planner_prices
from support.models.chat_server import ChatServer, Reply, chat, error, serving

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


@pytest.mark.parametrize(
    ("reply", "words"),
    [
        (Reply(error("add credits"), 402), "no money or quota left"),
        (Reply(error("expired"), 401), "check the variable OPENAI_API_KEY"),
        (Reply(error("gone"), 404), "no model 'tiny' there"),
    ],
)
async def test_a_fault_that_lasts_ends_the_run_before_further_tasks_are_tried(
    server: ChatServer, sandbox: Sandbox, tmp_path: Path, reply: Reply, words: str
) -> None:
    server.script = [RIGHT, RIGHT, *[reply] * 40]
    with pytest.raises(UserError, match=words):
        await run(server, sandbox, tmp_path, 30, limit=1.0)
    assert len(server.asked) <= 4, "one more may be on its way"
    assert sum(record.outcome == "scored" for record in logged(tmp_path)) == 2
    server.script = []
    assert (await run(server, sandbox, tmp_path, 30)).continued == 2


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


async def test_an_answer_without_usage_is_paid_for_and_marked(
    server: ChatServer, sandbox: Sandbox, tmp_path: Path
) -> None:
    """It cost the price of a call alone."""
    server.after = Reply(chat("```python\ndef task_func(x):\n    return x + 1\n```", usage=None))
    await run(server, sandbox, tmp_path, 1)
    (record,) = logged(tmp_path)
    (attempt,) = record.subtasks[0].attempts
    assert attempt.usage_estimated
    assert attempt.completion_tokens == 12, "48 bytes"
    assert record.cost == pytest.approx(0.5 + attempt.prompt_tokens * 0.01 + attempt.completion_tokens * 0.1)
    (tmp_path / "logs").rename(tmp_path / "first")
    again = await run(server, sandbox, tmp_path, 1)
    (remembered,) = logged(tmp_path)[0].subtasks[0].attempts
    assert (len(server.asked), remembered.source, remembered.usage_estimated) == (1, "cache", True)
    assert again.cost_usd == pytest.approx(record.cost)


PLAN = Reply(chat('{"id": "1", "instruction": "add", "task_type": "integer", "worker": "sum", "depends_on": []}]}'))


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


async def test_a_planner_that_could_not_be_asked_has_failed_nothing(
    server: ChatServer, sandbox: Sandbox, tmp_path: Path
) -> None:
    """It ended the whole collection."""
    server.after, server.script = PLAN, [PLAN, Reply(error("down"), 503), Reply(error("down"), 503)]
    first = await run_llm(server, sandbox, tmp_path, 6)
    assert (first.executed, first.unscorable) == (6, 1)
    (lost,) = [record for record in logged(tmp_path) if record.outcome == "unscorable"]
    assert (lost.fault, lost.score, lost.planning) == ("server", None, None)
    second = await run_llm(server, sandbox, tmp_path, 6)
    assert (second.continued, second.executed, second.unscorable) == (5, 1, 0)


async def test_a_planners_model_has_a_price(server: ChatServer) -> None:
    """A default of nothing would make the dearest planner look free."""
    model = {"kind": "openai_api", "name": "tiny", "base_url": server.url}
    tool = {"kind": "tool", "tool": "calculator", "card": "Adds."}
    asks = {"kind": "model", "model": "m", "card": "All.", "price_per_mtok_in_usd": 2.0}

    def prices(model: dict[str, Any], pool: dict[str, Any]) -> Prices:
        return planner_prices(
            WorkersConfig.model_validate({"models": {"m": model}, "pool": pool, "planner_model": "m"})
        )

    dear = asks | {"price_per_mtok_in_usd": 3.0}
    assert prices(model, {"cheap": asks, "dear": dear, "tool": tool}) == Prices(per_mtok_in=3.0)
    assert prices(model | {"price_per_mtok_out_usd": 1.0}, {"cheap": asks}) == Prices(per_mtok_out=1.0)
    assert prices({"kind": "huggingface", "name": "tiny"}, {"tool": tool}) == Prices()
    with pytest.raises(UserError, match=r"workers\.models\.m\.price_per_mtok_in_usd"):
        prices(model, {"tool": tool})
