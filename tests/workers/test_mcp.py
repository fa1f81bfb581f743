"""Tools of real MCP servers as workers, over stdio and HTTP: arguments, errors, and servers that die."""

from __future__ import annotations

import asyncio
import socket
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from orchestai.config import WorkersConfig
from orchestai.errors import InfrastructureError
from orchestai.sandbox import Sandbox
from orchestai.workers.base import Request, WorkerError
from orchestai.workers.pool import WorkerPool, worker_cards

pytest.importorskip("mcp")

PROGRAM = str(Path(__file__).parents[1] / "support" / "agents" / "mcp_tools.py")
STDIO = {"command": sys.executable, "args": [PROGRAM]}
JOIN = Request("say it", inputs={"1": "left", "2": "right"})


@pytest.fixture(scope="module")
def sandbox() -> Iterator[Sandbox]:
    with Sandbox(workers=1) as running:
        yield running


def free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


@pytest.fixture
def http() -> Iterator[tuple[dict[str, Any], subprocess.Popen[bytes]]]:
    port = free_port()
    process = subprocess.Popen([sys.executable, PROGRAM, str(port)], stderr=subprocess.DEVNULL)
    try:
        while process.poll() is None:
            with socket.socket() as tried:
                if tried.connect_ex(("127.0.0.1", port)) == 0:
                    break
        yield {"url": f"http://127.0.0.1:{port}/mcp", "timeout_s": 20.0}, process
    finally:
        process.kill()
        process.wait()


@asynccontextmanager
async def opened(sandbox: Sandbox, server: dict[str, Any], **tools: dict[str, Any]) -> AsyncIterator[WorkerPool]:
    pool = {
        name: {"kind": "mcp", "card": "c", "price_per_call_usd": 0.5, "mcp": {"server": "s", "tool": name, **more}}
        for name, more in tools.items()
    }
    config = WorkersConfig(mcp_servers={"s": server}, pool=pool, cache_dir=None)
    assert {card.kind for card in worker_cards(config)} == {"tool"}
    async with WorkerPool.from_config(config, sandbox) as opened:
        yield opened


async def test_a_tool_answers_over_one_session(sandbox: Sandbox) -> None:
    arguments = {"text": "{{ inputs['1'] }}", "times": "{{ inputs | length }}", "mark": "-"}
    async with opened(sandbox, STDIO, shout={}, repeat={"arguments": arguments}, refuse={}, count={}) as pool:
        await pool.check()
        answer = await pool.answer("shout", JOIN)
        assert (answer.text, answer.cost_usd, answer.source) == ("SAY IT\n\nLEFT\n\nRIGHT", 0.5, "tool")
        assert (await pool.answer("repeat", JOIN)).text == "left-left-"
        with pytest.raises(WorkerError, match="no such customer"):
            await pool.answer("refuse", JOIN)
        with pytest.raises(WorkerError, match=r"mcp\.arguments\.text"):
            await pool.answer("repeat", Request("say it"))
        counted = await asyncio.gather(*(pool.answer("count", JOIN) for _ in range(8)))
        assert sorted(int(one.text) for one in counted) == [*range(1, 9)], "one process, many requests in flight"


async def test_a_server_that_died_is_started_again_and_no_more_than_once(sandbox: Sandbox) -> None:
    async with opened(sandbox, STDIO, count={}, die={}) as pool:
        assert [(await pool.answer("count", JOIN)).text for _ in range(2)] == ["1", "2"]
        with pytest.raises(InfrastructureError, match="out of disk") as fault:
            await pool.answer("die", JOIN)
        assert fault.value.kind == "connection"
        assert (await pool.answer("count", JOIN)).text == "1", "a new process"


async def test_a_server_over_http_that_died_is_a_fault_of_infrastructure(sandbox: Sandbox, http: Any) -> None:
    server, process = http
    async with opened(sandbox, server, shout={}, die={}) as pool:
        await pool.check()
        assert (await pool.answer("shout", Request("hi"))).text == "HI"
        with pytest.raises(InfrastructureError) as fault:
            await pool.answer("die", JOIN)
        assert fault.value.kind == "connection"
        process.wait()
        with pytest.raises(InfrastructureError):
            await pool.answer("shout", Request("hi"))


async def test_a_server_gets_the_variables_that_are_named_and_no_others(sandbox: Sandbox, monkeypatch: Any) -> None:
    monkeypatch.setenv("SHARED_WITH_IT", "yes")
    monkeypatch.setenv("KEPT_FROM_IT", "no")
    arguments = {"arguments": {"name": "{{ instruction }}"}}
    async with opened(sandbox, {**STDIO, "env": ["SHARED_WITH_IT"]}, variable=arguments) as pool:
        assert (await pool.answer("variable", Request("SHARED_WITH_IT"))).text == "yes"
        assert (await pool.answer("variable", Request("KEPT_FROM_IT"))).text == "absent"
