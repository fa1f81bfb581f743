"""A server of language models over real HTTP, whose models behave as their names say: for streams, tools and chaos.

What a model `...withheld` writes is paid for, and kept back by a filter; `talking` ends after a word where that is all.
"""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from orchestai.serving.api.errors import unless_left
from orchestai.serving.api.server import listen

PAUSE_S = 0.05
"""Between the words of a stream."""


@dataclass
class ModelServer:
    """What was asked, and how many replies are on their way or were left by whoever asked."""

    url: str = ""
    asked: list[dict[str, Any]] = field(default_factory=list)
    left: int = 0


TOOL = "weather"


def calls_of(body: dict[str, Any]) -> list[dict[str, Any]]:
    """The model `calling` calls the first tool that is offered, once."""
    told = body["messages"][-1]["role"] == "tool"
    if not body.get("tools") or told or body.get("tool_choice") == "none" or not body["model"].startswith("calling"):
        return []
    function = {"name": body["tools"][0]["function"]["name"], "arguments": '{"town": "Oslo"}'}
    return [{"id": "own-1", "type": "function", "function": function}]


def reply_of(body: dict[str, Any]) -> str:
    """A reply that shows what was asked."""
    return f"{body['model']} answers: {body['messages'][-1]['content']}"


def usage_of(text: str) -> dict[str, int]:
    written = len(text.split())
    return {"prompt_tokens": 10, "completion_tokens": written, "total_tokens": 10 + written}


def whole(body: dict[str, Any]) -> dict[str, Any]:
    text = reply_of(body)
    message = {"role": "assistant", "content": text}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    if calls := calls_of(body):
        message |= {"content": None, "tool_calls": calls}
        choice["finish_reason"] = "tool_calls"
    elif body["model"] == "talking" and body["max_tokens"] == 1:
        message["content"], choice["finish_reason"] = text.split()[0], "length"
    elif body["model"].endswith("withheld"):
        choice["finish_reason"] = "content_filter"
    head = {"id": "1", "object": "chat.completion", "created": 0, "model": body["model"]}
    return {**head, "choices": [choice], "usage": usage_of(text)}


def chunk(body: dict[str, Any], delta: dict[str, Any], finish: str | None = None, **more: Any) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    head = {"id": "1", "object": "chat.completion.chunk", "created": 0, "model": body["model"]}
    return b"data: " + json.dumps({**head, "choices": [choice], **more}).encode() + b"\n\n"


async def pieces(body: dict[str, Any]) -> AsyncIterator[bytes]:
    text = reply_of(body)
    if calls := calls_of(body):
        yield chunk(body, {"tool_calls": [{"index": 0, **calls[0]}]})
        yield chunk(body, {}, "tool_calls", usage=usage_of("called"))
        yield b"data: [DONE]\n\n"
        return
    short = body["max_tokens"] == 1
    for place, word in enumerate(text.split(" ")[: 1 if short else None]):
        if place == 2 and body["model"] == "breaking":
            return
        yield chunk(body, {"content": f" {word}" if place else word})
        await asyncio.sleep(PAUSE_S)
    yield chunk(body, {}, "length" if short else "stop", usage=usage_of(text))
    yield b"data: [DONE]\n\n"


async def misbehave(body: dict[str, Any]) -> Response | None:
    """What a model does that does not answer; None where it answers."""
    model = body["model"]
    if model == "throttled":
        return JSONResponse({"error": {"message": "too many requests"}}, 429, {"retry-after": "30"})
    if model == "failing":
        return JSONResponse({"error": {"message": "out of order"}}, 500)
    if model == "garbage":
        return Response(b"\x00<html>\xff", media_type="application/json")
    if model == "half":
        return Response(b'{"choices": [{"mess', headers={"content-length": "400"}, media_type="application/json")
    if model == "never":
        await asyncio.Event().wait()
    if model == "slow":
        await asyncio.sleep(3.0)
    return None


@contextmanager
def model_server() -> Iterator[ModelServer]:
    """The server, until the block ends."""
    state = ModelServer()

    async def completions(request: Request) -> Response:
        body = await request.json()
        state.asked.append(body)
        try:
            if (bad := await unless_left(request, misbehave(body))) is not None:
                return bad
        except ClientDisconnect:
            state.left += 1
            return Response()
        if body.get("stream"):
            return StreamingResponse(_counting(pieces(body), state), media_type="text/event-stream")
        return JSONResponse(whole(body))

    async def models(request: Request) -> Response:
        return JSONResponse({"object": "list", "data": [{"id": "any", "object": "model"}]})

    app = Starlette(routes=[Route("/v1/chat/completions", completions, methods=["POST"]), Route("/v1/models", models)])
    listening = listen("127.0.0.1", 0)
    state.url = f"http://127.0.0.1:{listening.getsockname()[1]}/v1"
    settings = uvicorn.Config(app, log_config=None, access_log=False, lifespan="off", timeout_graceful_shutdown=1)
    server = uvicorn.Server(settings)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    while not server.started:
        time.sleep(0.01)
    try:
        yield state
    finally:
        server.should_exit = True
        thread.join(10)
        listening.close()


async def _counting(stream: AsyncIterator[bytes], state: ModelServer) -> AsyncIterator[bytes]:
    try:
        async for piece in stream:
            yield piece
    except asyncio.CancelledError:
        state.left += 1
        raise
