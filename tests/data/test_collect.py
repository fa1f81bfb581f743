"""Collecting executions: each pair once, whatever interrupts it, and never a zero for what could not be judged."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from orchestai.config import ExecutionConfig
from orchestai.data.collect import Collected, Collection, collect
from orchestai.errors import InfrastructureError, UserError
from orchestai.execution.log import ExecutionLog, read_log
from orchestai.execution.result import JudgedExecution
from orchestai.execution.running_workflow import JudgingExecutor
from orchestai.planner.base import Plan
from orchestai.sandbox import Sandbox
from orchestai.tasks.task import Task
from orchestai.workers.base import Answer, Request
from orchestai.workflow import Workflow

TEST = (
    "import unittest\n\n\nclass T(unittest.TestCase):\n    def test(self):\n        self.assertEqual(task_func(1), 2)\n"
)
TASKS = [Task(task_id=str(i), suite="s", instruct_prompt=f"Task {i}", test=TEST, parameters=("x",)) for i in range(5)]


class Pool:
    """One worker, `add`, that answers after a moment, or breaks down from the given request on."""

    def __init__(self, breaks_at: int | None = None, seconds: float = 0.0) -> None:
        self.breaks_at = breaks_at
        self.seconds = seconds
        self.asked: list[tuple[str, int]] = []

    async def answer(self, name: str, request: Request) -> Answer:
        self.asked.append((request.instruction, request.sample))
        if self.breaks_at is not None and len(self.asked) > self.breaks_at:
            raise InfrastructureError("server", "the server is gone")
        await asyncio.sleep(self.seconds)
        return Answer(text="def task_func(x):\n    return x + 1", cost_usd=0.5, latency_ms=10)


class WholePlanner:
    """Asks `add` for the whole task; has no plan for the tasks in `lost`."""

    def __init__(self, lost: Sequence[str] = ()) -> None:
        self.lost = lost

    def plan(self, tasks: Sequence[Task]) -> list[Plan]:
        return [
            Plan(None, False, error="the dependencies form a cycle")
            if task.task_id in self.lost
            else Plan(Workflow([{"id": "0", "instruction": task.instruction, "worker": "add"}]), True)
            for task in tasks
        ]


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(workers=2) as sandbox:
        yield sandbox


async def gather(
    sandbox: Sandbox, directory: Path, pool: Pool, count: int, lost: Sequence[str] = (), name: str = "whole"
) -> Collected:
    def reward(execution: JudgedExecution) -> float:
        return 10.0 * execution.success

    return await collect(
        Collection(TASKS, count, name, ["add"]),
        lambda repetition: WholePlanner(lost),
        JudgingExecutor(pool, sandbox, ExecutionConfig(concurrency=3)),
        ExecutionLog(directory),
        reward=reward,
    )


async def test_every_task_comes_once_before_any_comes_again(sandbox: Sandbox, tmp_path: Path) -> None:
    pool = Pool()
    state = await gather(sandbox, tmp_path, pool, 8)
    assert (state.total, state.executed, state.succeeded, state.cost_usd) == (8, 8, 8, 4.0)
    records = read_log(tmp_path).records
    assert sorted(record.task_id for record in records if record.repetition == 0) == list("01234")
    assert sum(record.repetition == 1 for record in records) == 3
    assert {sample for _, sample in pool.asked} == {0, 1}
    assert {record.reward for record in records} == {10.0}


async def test_an_interrupted_collection_goes_on_without_repeating(sandbox: Sandbox, tmp_path: Path) -> None:
    """A cancelled run, as by Ctrl-C, leaves whole lines; the next run does the rest and only the rest."""
    slow = Pool(seconds=0.05)
    job = asyncio.ensure_future(gather(sandbox, tmp_path, slow, 10))
    while len(slow.asked) < 5:
        await asyncio.sleep(0.01)
    job.cancel()
    with pytest.raises(asyncio.CancelledError):
        await job
    before = read_log(tmp_path)
    assert 0 < len(before.records) < 10
    assert not before.problems
    rest = Pool()
    state = await gather(sandbox, tmp_path, rest, 10)
    assert (state.continued, state.executed) == (len(before.records), 10 - len(before.records))
    assert len(rest.asked) == state.executed
    pairs = [(record.task_id, record.repetition) for record in read_log(tmp_path).records]
    assert len(set(pairs)) == len(pairs) == 10
    again = await gather(sandbox, tmp_path, Pool(), 10)
    assert (again.continued, again.executed) == (10, 0)
    assert (again.success_rate, again.cost_usd) == (1.0, 5.0), "of all that is logged: it said 0 %"
    other = await gather(sandbox, tmp_path, Pool(), 10, name="other")
    assert (other.continued, other.executed) == (0, 10)


async def test_a_planner_without_a_plan_has_failed_the_task(sandbox: Sandbox, tmp_path: Path) -> None:
    state = await gather(sandbox, tmp_path, Pool(), 5, lost=["2"])
    assert (state.executed, state.succeeded, state.unscorable) == (5, 4, 0)
    record = next(record for record in read_log(tmp_path).records if record.task_id == "2")
    assert (record.success, record.score, record.outcome) == (False, 0.0, "scored")
    assert record.error == "no valid plan: the dependencies form a cycle"
    assert record.workflow() is None


async def test_too_many_unscorable_executions_stop_the_command(sandbox: Sandbox, tmp_path: Path) -> None:
    """What was unscorable is asked again by the next run; what was scored is kept."""
    pool = Pool(breaks_at=20)
    with pytest.raises(UserError, match=r"tasks\.unscorable_limit=0\.2 allows; .*the server is gone"):
        await gather(sandbox, tmp_path, pool, 100)
    assert len(pool.asked) < 40
    records = read_log(tmp_path).records
    scored = [record for record in records if record.outcome == "scored"]
    assert len(scored) == 20
    assert all(record.score is None and not record.success for record in records if record.outcome == "unscorable")
    state = await gather(sandbox, tmp_path, Pool(), 30)
    assert state.continued == len({(r.task_id, r.repetition) for r in scored})
