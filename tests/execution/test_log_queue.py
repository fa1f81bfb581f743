"""Lines of runs that end together: all are in the log when their runs are answered, and a bad one harms no other."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from orchestai.execution.log import ExecutionLog, LogQueue, read_log
from orchestai.execution.record import ExecutionRecord, PlanOutputs, RunOutputs


def record(number: int) -> ExecutionRecord:
    outputs = RunOutputs(success=True, total_cost=0.0, total_latency_ms=0.0)
    return ExecutionRecord(
        instruction=f"Task {number}.",
        success=True,
        cost=0.0,
        latency_ms=0.0,
        planner_outputs=PlanOutputs(),
        execution_result=outputs,
    )


async def test_each_line_is_there_when_its_append_returns(tmp_path: Path) -> None:
    queue = LogQueue(ExecutionLog(tmp_path))

    async def append(number: int) -> None:
        await queue.append(record(number))
        assert f"Task {number}." in {each.instruction for each in read_log(tmp_path).records}

    await asyncio.gather(*map(append, range(40)))
    assert len(read_log(tmp_path).records) == 40
    await queue.close()


async def test_whoever_is_cancelled_while_it_waits_is_in_the_log(tmp_path: Path) -> None:
    queue = LogQueue(ExecutionLog(tmp_path))
    waiting = asyncio.ensure_future(queue.append(record(1)))
    await asyncio.sleep(0)
    waiting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await waiting
    await queue.close()
    assert len(read_log(tmp_path).records) == 1
