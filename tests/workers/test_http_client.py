"""What OpenAI's own client would do for the line to a server, ours has to do as well: real servers, proxies and TLS."""

from __future__ import annotations

import asyncio
import gzip
import json
from collections.abc import Iterator
from typing import Any

import pytest

from orchestai.config import ModelConfig
from orchestai.errors import FaultKind, InfrastructureError
from orchestai.workers import openai_api
from orchestai.workers.generation import Prompt, SamplingParams
from orchestai.workers.openai_api import OpenAIGenerator
from support.models.chat_server import ChatServer, Reply, chat, error, serving

PROMPT = Prompt((("user", "hello"),))
PARAMS = SamplingParams(temperature=0.5, max_new_tokens=7, stop=("STOP",))
TRIES = 2


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ChatServer]:
    for name in ("http_proxy", "https_proxy", "all_proxy", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret")
    monkeypatch.setattr(openai_api, "FIRST_WAIT_S", 0.001)
    with serving() as running:
        yield running


async def ask(url: str, hear: Any = None, **settings: Any) -> str:
    generator = OpenAIGenerator(
        ModelConfig(kind="openai_api", name="tiny", base_url=url, max_retries=TRIES - 1, **settings)
    )
    try:
        return (await generator.generate(PROMPT, PARAMS, 0, hear)).text
    finally:
        await generator.close()


@pytest.mark.parametrize("scheme", ["http://", ""])
async def test_a_server_is_asked_through_the_proxy_of_the_environment(
    server: ChatServer, monkeypatch: pytest.MonkeyPatch, scheme: str
) -> None:
    monkeypatch.setenv("HTTP_PROXY", f"{scheme}me:word@127.0.0.1:{server.server_port}")
    monkeypatch.setenv("http_proxy", f"{scheme}me:word@127.0.0.1:{server.server_port}")
    assert await ask("http://models.invalid/v1") == "out "
    assert server.paths == ["http://models.invalid/v1/chat/completions"]
    assert server.headers[0]["proxy-authorization"] == "Basic bWU6d29yZA=="
    assert server.keys == ["Bearer sk-very-secret"]
    monkeypatch.setenv("no_proxy", "models.invalid")
    with pytest.raises(InfrastructureError, match="2 tries"):
        await ask("http://models.invalid/v1")


async def test_a_key_does_not_follow_to_another_server(server: ChatServer) -> None:
    with serving() as other:
        server.after = Reply(b"", 307, headers={"Location": f"{other.url}/chat/completions"})
        assert await ask(server.url) == "out "
        assert (server.keys, other.keys) == (["Bearer sk-very-secret"], [None])


def event(**chunk: Any) -> bytes:
    return b"data: " + json.dumps(chunk).encode() + b"\n\n"


def piece(text: str, finish_reason: str | None = None) -> bytes:
    return event(choices=[{"index": 0, "delta": {"content": text}, "finish_reason": finish_reason}])


USAGE = event(choices=[], usage={"prompt_tokens": 11, "completion_tokens": 3})
DONE = b"data: [DONE]\n\n"
STREAM = "text/event-stream"
WHOLE = b": ping\n\nevent: message\n" + piece("out ") + piece("", "stop") + USAGE + DONE


@pytest.mark.parametrize("sent", [WHOLE, WHOLE.replace(b"\n", b"\r\n"), WHOLE.removesuffix(DONE)])
async def test_a_stream_is_read_however_its_lines_end(server: ChatServer, sent: bytes) -> None:
    server.after = Reply(sent, content_type=STREAM)
    heard: list[str] = []
    assert await ask(server.url, heard.append) == "out "
    assert heard == ["out "]
    assert server.asked[0]["stream"] is True


FAULTS: dict[str, tuple[Reply, FaultKind, int, str]] = {
    "refused": (Reply(error("slow down"), 429), "rate_limit", TRIES, "slow down.* after 2 tries"),
    "an error in place of a piece": (
        Reply(event(error={"message": "overloaded", "code": 503}), content_type=STREAM),
        "server",
        TRIES,
        "overloaded",
    ),
    "an error after a piece": (
        Reply(piece("ou") + event(error={"message": "overloaded", "code": 503}), content_type=STREAM),
        "server",
        1,
        "overloaded.*after a part of the reply had come",
    ),
    "no JSON": (Reply(b"data: {oops\n\n", content_type=STREAM), "bad_response", TRIES, "not a stream"),
    "an end before the end": (Reply(piece("ou"), content_type=STREAM), "bad_response", 1, "broke off"),
    "a line lost before a piece": (Reply(b": ping\n", content_type=STREAM, missing=9), "connection", TRIES, "lost"),
    "a line lost after a piece": (Reply(piece("ou"), content_type=STREAM, missing=9), "connection", 1, "after a part"),
}
"""What a server does in place of a stream; what that is, after how many tries, and what is said."""


@pytest.mark.parametrize("case", FAULTS)
async def test_every_fault_of_a_stream_has_its_kind(server: ChatServer, case: str) -> None:
    """What was told cannot be taken back, so only what comes before the first piece is tried again."""
    server.after, kind, tries, words = FAULTS[case]
    with pytest.raises(InfrastructureError, match=words) as caught:
        await ask(server.url, lambda text: None)
    assert (caught.value.kind, len(server.asked)) == (kind, tries)


J = json.dumps(chat("Rome")).encode()
GZIPPED_TWICE = gzip.compress(gzip.compress(J))
HEADERS = {
    "a policy of 20 kB": f"x-policy: {'a' * 20_000}\r\ncontent-length: {len(J)}\r\n",
    "its length twice": f"content-length: {len(J)}\r\n" * 2,
    "a length that is too small": f"content-length: {len(J)}\r\n",
    "two encodings": f"content-encoding: gzip, gzip\r\ncontent-length: {len(GZIPPED_TWICE)}\r\n",
    "two encodings, apart": "content-encoding: gzip\r\n" * 2 + f"content-length: {len(GZIPPED_TWICE)}\r\n",
    "an encoding that it has not": f"content-encoding: br\r\ncontent-length: {len(J)}\r\n",
}
"""What real gateways send, and OpenAI's client reads."""


@pytest.mark.parametrize("case", HEADERS)
async def test_what_openais_client_reads_is_read(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    body = (
        GZIPPED_TWICE
        if case.startswith("two encodings")
        else J + b"\r\n\r\njunk" * (case == "a length that is too small")
    )
    monkeypatch.setenv("OPENAI_API_KEY", "x")
    monkeypatch.setenv("no_proxy", "*")

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        await reader.readexactly(int(head.lower().split(b"content-length:")[1].split(b"\r\n")[0]))
        writer.write(b"HTTP/1.1 200 OK\r\n" + HEADERS[case].encode() + b"\r\n" + body)
        await writer.drain()
        writer.close()

    async with await asyncio.start_server(answer, "127.0.0.1", 0) as server:
        port = server.sockets[0].getsockname()[1]
        assert await ask(f"http://127.0.0.1:{port}/v1") == "Rome"
