"""On a cluster whose nodes die, programs and workflows get the verdicts that they get here, and none is lost."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterator
from typing import Any

import psutil
import pytest

pytest.importorskip("ray")
from orchestai.cluster import actors
from orchestai.config import RayConfig, load_config
from orchestai.execution.runtime import open_runtime
from orchestai.outcome import Unscorable
from orchestai.sandbox import Program, Sandbox
from support.cluster.simulated import simulated_cluster
from support.models.tool_workers import with_tools_alone
from support.repository import REPOSITORY
from support.sandbox.programs import ADD, ADD_TESTS
from support.training.repeated_words import TASK, whole

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
PROGRAMS = [Program(f"{code}# {number}\n", ADD_TESTS) for number in range(20) for code in (ADD, ADD.replace("+", "-"))]


@pytest.fixture
def nodes() -> Iterator[Any]:
    with simulated_cluster(1) as cluster:
        yield cluster


async def test_nothing_is_lost_with_a_node(nodes: Any) -> None:
    config = with_tools_alone(load_config(REPOSITORY / "config.yaml", ["sandbox.workers=1"]))
    away = config.execution.model_copy(update={"backend": "ray", "ray": RayConfig(num_workers=1)})
    plan = whole("calculator")
    with Sandbox.from_config(config.sandbox) as here:
        expected = [here.run(program).passed for program in PROGRAMS]
    async with (
        open_runtime(config.workers, config.execution, config.sandbox) as local,
        open_runtime(config.workers, away, config.sandbox) as remote,
    ):
        assert remote.sandbox.level == local.sandbox.level
        judging = [asyncio.ensure_future(remote.sandbox.arun(program)) for program in PROGRAMS]
        await asyncio.wait(judging, return_when=asyncio.FIRST_COMPLETED)
        lost = next(iter(nodes.worker_nodes))
        nodes.remove_node(lost, allow_graceful=False)
        nodes.add_node(num_cpus=1)
        assert [report.passed for report in await asyncio.gather(*judging)] == expected
        ran, here_too = await remote.executor.execute(TASK, plan), await local.executor.execute(TASK, plan)
        assert (ran.outcome, ran.answer) == (here_too.outcome, here_too.answer)


async def test_without_any_node_left_an_execution_is_unscorable(nodes: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    config = with_tools_alone(load_config(REPOSITORY / "config.yaml", ["sandbox.workers=1"]))
    away = config.execution.model_copy(update={"backend": "ray", "ray": RayConfig(num_workers=1)})
    async with open_runtime(config.workers, away, config.sandbox) as remote:
        monkeypatch.setattr(actors, "WAIT_S", 1.0)
        actor = int(re.search(r"process (\d+)", remote.executor._cluster.facts.name)[1])
        nodes.remove_node(next(iter(nodes.worker_nodes)), allow_graceful=False)
        psutil.wait_procs([psutil.Process(actor)] if psutil.pid_exists(actor) else [], timeout=60)
        ran = await remote.executor.execute(TASK, whole("calculator"))
    assert isinstance(ran.outcome, Unscorable)
    assert ran.outcome.kind == "node"
