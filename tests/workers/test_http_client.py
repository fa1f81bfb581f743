"""What OpenAI's own client would do for the line to a server, ours has to do as well: real servers, proxies and TLS."""

from __future__ import annotations

import json
import ssl
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from ipaddress import ip_address
from pathlib import Path
from typing import Any

import pytest

from orchestai.config import ModelConfig
from orchestai.errors import FaultKind, InfrastructureError, UserError
from orchestai.workers import openai_api
from orchestai.workers.generation import Prompt, SamplingParams
from orchestai.workers.openai_api import OpenAIGenerator
from support.models.chat_server import ChatServer, Reply, error, serving

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


async def test_the_query_of_an_address_goes_with_every_request(server: ChatServer) -> None:
    """Azure's deployments have the version of their API there."""
    assert await ask(f"{server.url}/deployments/d/?api-version=2024-10-21") == "out "
    assert server.paths == ["/v1/deployments/d/chat/completions?api-version=2024-10-21"]


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
    with pytest.raises(InfrastructureError, match="connection refused or lost after 2 tries"):
        await ask("http://models.invalid/v1")


async def test_a_proxy_that_does_not_speak_http_is_refused_by_name(
    server: ChatServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("all_proxy", "socks5://127.0.0.1:1080")
    with pytest.raises(UserError, match=r"ALL_PROXY: socks5 is not supported.*127\.0\.0\.1 out with NO_PROXY"):
        await ask(server.url)


async def test_a_key_does_not_follow_to_another_server(server: ChatServer) -> None:
    with serving() as other:
        server.after = Reply(b"", 307, headers={"Location": f"{other.url}/chat/completions"})
        assert await ask(server.url) == "out "
        assert (server.keys, other.keys) == (["Bearer sk-very-secret"], [None])


async def test_a_server_is_trusted_by_the_authorities_that_the_environment_names(
    server: ChatServer, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    certificate = self_signed(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    url = server.url.replace("http://", "https://")
    with pytest.raises(InfrastructureError, match=r"self-signed.*SSL_CERT_FILE"):
        await ask(url)
    monkeypatch.setenv("SSL_CERT_FILE", str(certificate))
    assert await ask(url) == "out "


def self_signed(folder: Path) -> Path:
    """A certificate for 127.0.0.1, with its key."""
    x509 = pytest.importorskip("cryptography.x509")
    from cryptography.hazmat.primitives import hashes, serialization
    from cryptography.hazmat.primitives.asymmetric import ec

    key, name = ec.generate_private_key(ec.SECP256R1()), x509.Name([x509.NameAttribute(x509.NameOID.COMMON_NAME, "x")])
    now = datetime.now(timezone.utc)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number(), now, now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ip_address("127.0.0.1"))]), critical=False)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path = folder / "server.pem"
    path.write_bytes(private + certificate.public_bytes(serialization.Encoding.PEM))
    return path


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
    "refused by a page": (Reply(b"<html>", 502, "text/html"), "server", TRIES, "HTTP 502"),
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
    "half a character": (
        Reply(piece("\ud83d") + piece("", "stop") + DONE, content_type=STREAM),
        "bad_response",
        TRIES,
        "not a stream",
    ),
    "nothing": (Reply(b"", content_type=STREAM), "bad_response", TRIES, "the answer is empty"),
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
