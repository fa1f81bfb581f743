"""Streams: pieces as they are written, what happens in between, and clients that leave."""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from orchestai.execution.log import read_log
from orchestai.serving.api.replies import event_stream
from support.models.model_server import PAUSE_S, ModelServer, model_server
from support.serving.served import Served, functions, models, serving, settings

NAMES = ("talking", "breaking", "failing", "never")


@pytest.fixture(scope="module")
def server() -> Iterator[ModelServer]:
    with model_server() as running:
        yield running


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("logs")


@pytest.fixture(scope="module")
def served(server: ModelServer, logs: Path) -> Iterator[Served]:
    workers = models(server.url, *NAMES)
    workers["pool"] |= functions("good", "slow")
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(event_stream, "KEEP_ALIVE_S", 0.05)
        with serving(settings(workers, ("talking",)), logs) as started:
            yield started


def streamed(served: Served, **more: Any) -> tuple[list[dict[str, Any]], list[float]]:
    """Chunks of a stream, and when each came."""
    chunks, times = [], []
    body = {"model": "orchestai", "messages": [{"role": "user", "content": "Count to three."}], "stream": True, **more}
    with served.client.stream("POST", "/v1/chat/completions", json=body) as reply:
        assert reply.status_code == 200
        assert reply.headers["content-type"].startswith("text/event-stream")
        assert reply.headers["x-orchestai-run-id"].startswith("run-")
        lines = [line for line in _timed(reply.iter_lines(), times) if line.startswith("data: ")]
    if "error" not in lines[-1]:
        assert lines.pop() == "data: [DONE]"
    chunks = [json.loads(line.removeprefix("data: ")) for line in lines]
    return chunks, times


def _timed(lines: Iterator[str], times: list[float]) -> Iterator[str]:
    for line in lines:
        if line.startswith("data: "):
            times.append(time.monotonic())
        yield line


def text(chunks: list[dict[str, Any]]) -> str:
    return "".join(choice["delta"].get("content", "") for chunk in chunks for choice in chunk.get("choices", ()))


def test_the_answer_comes_as_it_is_written(served: Served) -> None:
    chunks, times = streamed(served, stream_options={"include_usage": True})
    assert text(chunks) == "talking answers: Count to three."
    assert times[-1] - times[0] > 2 * PAUSE_S
    *_, last, usage = chunks
    assert last["choices"][0]["finish_reason"] == "stop"
    assert last["orchestai"]["status"] == "complete"
    assert usage["choices"] == []
    assert usage["usage"]["total_tokens"] == 15
    assert usage["usage"]["workers"]["requests"] == 1
    assert len({chunk["id"] for chunk in chunks}) == 1


@pytest.mark.parametrize(("worker", "code"), [("breaking", "workers_failed"), ("failing", "workers_failed")])
def test_a_failure_on_the_way_is_told_in_the_stream(served: Served, worker: str, code: str) -> None:
    chunks, _ = streamed(served, model=f"worker:{worker}")
    assert chunks[-1]["error"]["code"] == code
    assert chunks[-1]["orchestai"]["status"] == "failed"


@pytest.mark.parametrize("stream", [True, False])
def test_a_client_that_leaves_cancels_its_nodes(served: Served, server: ModelServer, logs: Path, stream: bool) -> None:
    asked, left, spent = len(server.asked), server.left, served.orchestrator.ledger.spent_usd
    body = {"model": "worker:never", "messages": [{"role": "user", "content": "Wait."}], "stream": stream}
    request = served.client.build_request("POST", "/v1/chat/completions", json=body)
    head = "".join(f"{name}: {value}\r\n" for name, value in request.headers.items())
    with socket.create_connection((request.url.host, request.url.port)) as connection:
        connection.sendall(f"POST {request.url.path} HTTP/1.1\r\n{head}\r\n".encode() + request.read())
        wait_for(lambda: len(server.asked) > asked)  # a client that leaves before has asked nobody
    wait_for(lambda: server.left > left)
    wait_for(lambda: served.orchestrator.ledger.reserved_usd == 0)
    assert served.orchestrator.ledger.spent_usd > spent
    wait_for(lambda: read_log(logs).records[-1].error == "interrupted")


def wait_for(happened: Any, within_s: float = 5.0) -> None:
    until = time.monotonic() + within_s
    while not happened():
        assert time.monotonic() < until
        time.sleep(0.02)
