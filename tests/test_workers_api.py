"""Models behind an OpenAI-compatible server, against a real HTTP server that speaks the protocol and fails on cue."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from orchestai.config import ModelConfig
from orchestai.errors import InfrastructureError, UserError
from orchestai.workers.base import WorkerError
from orchestai.workers.generation import Prompt, SamplingParams
from orchestai.workers.openai_api import OpenAIGenerator

PROMPT = Prompt((("system", "be brief"), ("user", "hello")), prefill="def f")
PARAMS = SamplingParams(temperature=0.5, max_new_tokens=7, stop=("END", "b", "c", "d", "STOP"))
KEY = "sk-very-secret"


class Server(ThreadingHTTPServer):
    """Answers with the next status of `script`, then 200; keeps what it was asked."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.script: list[int | float] = []
        self.asked: list[dict[str, Any]] = []
        self.keys: list[str | None] = []
        self.url = f"http://127.0.0.1:{self.server_port}/v1"


class Handler(BaseHTTPRequestHandler):
    server: Server

    def do_GET(self) -> None:
        self._reply(self._next(), {"object": "list", "data": []})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        self.server.asked.append(body)
        self.server.keys.append(self.headers["Authorization"])
        choice = {"index": 0, "message": {"role": "assistant", "content": "out STOP rest"}, "finish_reason": "stop"}
        usage = {"prompt_tokens": 11, "completion_tokens": 3, "total_tokens": 14}
        answer = {"id": "1", "object": "chat.completion", "created": 0, "model": "tiny", "choices": [choice]}
        self._reply(self._next(), {**answer, "usage": usage})

    def _next(self) -> int:
        status = self.server.script.pop(0) if self.server.script else 200
        if isinstance(status, float):
            time.sleep(status)
            return 200
        return status

    def _reply(self, status: int, body: dict[str, Any]) -> None:
        data = json.dumps(body if status == 200 else {"error": {"message": f"fault {status}"}}).encode()
        try:
            self.send_response(status)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)
        except OSError:  # the client has given up, as a test wants it to
            pass

    def log_message(self, *args: Any) -> None:
        """Quiet."""


@pytest.fixture
def server() -> Iterator[Server]:
    running = Server()
    thread = threading.Thread(target=running.serve_forever, daemon=True)
    thread.start()
    yield running
    running.shutdown()
    running.server_close()


def model(url: str, **settings: Any) -> OpenAIGenerator:
    return OpenAIGenerator(ModelConfig(kind="openai_api", name="tiny", base_url=url, **settings))


async def test_a_request_and_its_answer(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    generator = model(server.url)
    await generator.check()
    completion = await generator.generate(PROMPT, PARAMS, 0)
    assert completion.text == "out ", "cut at a stop string that the server was not sent"
    assert (completion.prompt_tokens, completion.completion_tokens) == (11, 3)
    assert completion.latency_ms > 0
    (asked,) = server.asked
    assert asked["messages"][-1] == {"role": "assistant", "content": "def f"}
    assert (asked["model"], asked["temperature"], asked["max_tokens"]) == ("tiny", 0.5, 7)
    assert asked["stop"] == ["END", "b", "c", "d"], "servers take four"
    await generator.generate(PROMPT, PARAMS, 1)
    assert server.asked[1]["seed"] != asked["seed"]
    assert server.keys[0] == f"Bearer {KEY}"
    assert KEY not in completion.model_dump_json() + generator.identity
    await generator.close()


async def test_passing_faults_are_tried_again(server: Server) -> None:
    server.script = [429, 503]
    generator = model(server.url)
    assert (await generator.generate(PROMPT, PARAMS, 0)).text == "out "
    assert len(server.asked) == 3
    await generator.close()


async def test_a_time_out_is_tried_again(server: Server) -> None:
    server.script = [1.0]
    generator = model(server.url, timeout_s=0.3)
    completion = await generator.generate(PROMPT, PARAMS, 0)
    assert (completion.text, len(server.asked)) == ("out ", 2)
    assert completion.latency_ms < 900, "the latency is that of the try that answered"
    await generator.close()


async def test_lasting_faults_make_the_episode_unscorable(server: Server) -> None:
    server.script = [500] * 9
    generator = model(server.url, max_retries=1)
    with pytest.raises(InfrastructureError, match=r"HTTP 500.*after 2 tries"):
        await generator.generate(PROMPT, PARAMS, 0)
    await generator.close()


@pytest.mark.parametrize(
    ("status", "kind", "words"), [(404, UserError, "no model 'tiny'"), (400, WorkerError, "fault")]
)
async def test_faults_of_the_request_are_not_tried_again(
    server: Server, status: int, kind: type[Exception], words: str
) -> None:
    server.script = [status]
    generator = model(server.url)
    with pytest.raises(kind, match=words):
        await generator.generate(PROMPT, PARAMS, 0)
    assert len(server.asked) == 1
    await generator.close()


async def test_a_refused_or_missing_key_names_the_variable(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", KEY)
    server.script = [401, 401]
    generator = model(server.url, api_key_env="MY_KEY")
    for call in (generator.check(), generator.generate(PROMPT, PARAMS, 0)):
        with pytest.raises(UserError, match="MY_KEY") as caught:
            await call
        assert KEY not in str(caught.value)
    await generator.close()
    monkeypatch.delenv("MY_KEY")
    remote = model("https://api.example.invalid/v1", api_key_env="MY_KEY")
    with pytest.raises(UserError, match="export MY_KEY"):
        await remote.check()
    await remote.close()


async def test_an_unreachable_server_is_one_clear_line(server: Server) -> None:
    server.shutdown()
    server.server_close()
    generator = model(server.url, max_retries=0)
    with pytest.raises(UserError, match=f"cannot reach {server.url}; is the server running") as caught:
        await generator.check()
    assert "\n" not in str(caught.value)
    with pytest.raises(InfrastructureError, match="connection refused"):
        await generator.generate(PROMPT, PARAMS, 0)
    await generator.close()
