"""Requests that are nearly right, wrong, or no requests at all, each drawn from a number."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

TOOL = {"type": "function", "function": {"name": "weather", "parameters": {"type": "object", "properties": {}}}}
ARGUMENTS = {"name": "weather", "arguments": '{"town": "Oslo"}'}
CALL = {"id": "call_0123456789ab_0", "type": "function", "function": ARGUMENTS}
CHAT: dict[str, Any] = {
    "model": "orchestai",
    "messages": [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "Hello"}]},
        {"role": "assistant", "content": None, "tool_calls": [CALL]},
        {"role": "tool", "tool_call_id": CALL["id"], "content": "Rain."},
        {"role": "user", "content": "Which of Rome and Oslo is larger?", "name": "me"},
    ],
    "max_tokens": 9,
    "temperature": 0.5,
    "stop": ["END"],
    "seed": 1,
    "n": 1,
    "metadata": {"a": "b"},
    "user": "me",
    "tools": [TOOL],
    "tool_choice": "auto",
    "stream_options": {"include_usage": True},
    "stream": True,
    "response_format": {"type": "text"},
    "orchestai": {"contract": {"max_cost_usd": 0.01, "deadline_s": 1.0, "allow": ["talking"]}, "answer": "text"},
}
RESPONSES: dict[str, Any] = {
    "model": "orchestai",
    "input": [
        {"role": "user", "content": [{"type": "input_text", "text": "Hello"}]},
        {"type": "function_call", "call_id": "call_0_0", "name": "weather", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "call_0_0", "output": "Rain."},
        {"role": "user", "content": "Which is larger?"},
    ],
    "instructions": "Be brief.",
    "max_output_tokens": 9,
    "tools": [{"type": "function", "name": "weather", "parameters": {}}],
    "text": {"format": {"type": "text"}},
    "stream": True,
    "orchestai": {"contract": {"deadline_s": 1.0}, "events": True},
}
FEEDBACK: dict[str, Any] = {
    "run_id": "run-0123456789ab",
    "score": 1.0,
    "answer": "Rome",
    "tests": "assert task_func() == 1",
}
BODIES = {"/v1/chat/completions": CHAT, "/v1/responses": RESPONSES, "/v1/feedback": FEEDBACK}
PATHS = (
    *BODIES,
    "/v1/models",
    "/v1/models/%00",
    "/v1/runs/%00",
    "/v1/runs/%F0%9F%92%A9",
    "/v1/runs/../models",
    "/",
    "/metrics",
    "/%",
)
MODELS = ("orchestai", "worker:talking", "worker:calling", "worker:garbage", "worker:half", "other", "", "worker:")
STRINGS = ("", "\0", "a\0b", "💩", "\u202e", "x" * 1000, "'; DROP TABLE api_keys; --", "{}", "-1", "NaN", "__class__")
VALUES: tuple[Any, ...] = (
    *STRINGS,
    None,
    True,
    False,
    0,
    -1,
    1,
    2**31,
    2**63,
    10**30,
    1e308,
    float("nan"),
    float("inf"),
    -0.0,
    [],
    [[]],
    {},
    {"": ""},
    {"type": "text"},
    ["\0"],
)
HEADERS = (
    ("x-orchestai-max-cost-usd", "nan"),
    ("x-orchestai-deadline-s", "0.5"),
    ("x-orchestai-deadline-s", "1e999"),
    ("x-orchestai-allow", ",,"),
    ("x-orchestai-budget", "1"),
    ("x-orchestai-events", "maybe"),
    ("traceparent", "00-zz-zz-01"),
    ("content-type", "text/plain"),
    ("content-encoding", "gzip"),
    ("authorization", "Bearer"),
    ("authorization", "Bearer sk-orchestai-none"),
    ("authorization", "Basic \xff"),
    ("expect", "nothing"),
)
_LONG = 5_000
"""Characters of a body that is not made longer, since what is repeated may be repeated again."""


@dataclass(frozen=True)
class Fuzzed:
    """One request."""

    method: str
    path: str
    body: bytes
    headers: dict[str, bytes] = field(default_factory=dict)


def fuzzed(number: int) -> Fuzzed:
    """The request of this number, always the same."""
    draw = random.Random(number)
    path = draw.choice(tuple(BODIES)) if draw.random() < 0.9 else draw.choice(PATHS)
    method = "POST" if path in BODIES else draw.choice(("GET", "GET", "DELETE", "PUT", "HEAD", "OPTIONS"))
    body = copy.deepcopy(BODIES.get(path, {}))
    for key in draw.sample(sorted(body), draw.randint(0, len(body))):
        if key not in ("model", "messages", "input", "run_id") or draw.random() < 0.1:
            del body[key]
    if "model" in body:
        body["model"] = draw.choice(MODELS)
    for _ in range(draw.choice((0, 0, 0, 1, 1, 2, 5))):
        draw.choice(CHANGES)(body, draw)
    if draw.random() < 0.05:
        _nest(body, draw)
    text = json.dumps(body, ensure_ascii=draw.random() < 0.5)
    raw = text.encode("utf-8", "surrogatepass")
    if draw.random() < 0.08:
        raw = draw.choice(BREAKS)(raw, draw)
    headers = dict(draw.sample(HEADERS, draw.choice((0, 0, 0, 1, 2))))
    return Fuzzed(method, path, raw, {name: value.encode("latin-1") for name, value in headers.items()})


def _places(value: Any) -> list[tuple[Any, Any]]:
    """All places in a body, as containers with their keys."""
    if isinstance(value, dict):
        keys: list[Any] = list(value)
    elif isinstance(value, list):
        keys = list(range(len(value)))
    else:
        return []
    return [place for key in keys for place in ((value, key), *_places(value[key]))]


def _replace(body: dict[str, Any], draw: random.Random) -> None:
    if places := _places(body):
        container, key = draw.choice(places)
        container[key] = copy.deepcopy(draw.choice(VALUES))


def _remove(body: dict[str, Any], draw: random.Random) -> None:
    if places := _places(body):
        container, key = draw.choice(places)
        del container[key]


def _add(body: dict[str, Any], draw: random.Random) -> None:
    containers = [body, *(value for container, key in _places(body) if isinstance(value := container[key], dict))]
    name = draw.choice((*STRINGS, "audio", "logprobs", "reasoning", "previous_response_id", "type", "name"))
    draw.choice(containers)[name] = copy.deepcopy(draw.choice(VALUES))


def _repeat(body: dict[str, Any], draw: random.Random) -> None:
    lists = [value for container, key in _places(body) if isinstance(value := container[key], list)]
    if lists and len(str(body)) < _LONG:
        some = draw.choice(lists)
        some += copy.deepcopy(some) * draw.choice((1, 3, 40))


def _nest(body: dict[str, Any], draw: random.Random) -> None:
    if places := _places(body):
        container, key = draw.choice(places)
        for _ in range(draw.choice((1, 5, 300))):
            container[key] = [container[key]] if draw.random() < 0.5 else {"a": container[key]}


CHANGES: tuple[Callable[[dict[str, Any], random.Random], None], ...] = (_replace, _replace, _remove, _add, _repeat)
BREAKS: tuple[Callable[[bytes, random.Random], bytes], ...] = (
    lambda raw, draw: raw[: draw.randrange(len(raw) + 1)],
    lambda raw, draw: bytes(draw.randrange(256) for _ in range(draw.choice((1, 40, 900)))),
    lambda raw, draw: b"[" * 20_000,
    lambda raw, draw: b"\xef\xbb\xbf" + raw,
    lambda raw, draw: raw.decode("utf-8", "replace").encode("utf-16"),
    lambda raw, draw: raw.replace(b'"', b"'"),
    lambda raw, draw: raw.replace(b"Hello", b"\\ud800"),
    lambda raw, draw: raw[:-1] + b', "model": "worker:talking"}',
    lambda raw, draw: raw + b" " * draw.choice((1, 70_000)),
    lambda raw, draw: b"",
)
