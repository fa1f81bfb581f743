"""`/v1/responses`: what of OpenAI's format is supported; the rest is refused by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field

from orchestai.serving.api.errors import invalid
from orchestai.serving.api.requests.common import (
    Asked,
    CommonRequest,
    Empty,
    Part,
    read_tools,
    refuse_others,
    said,
    text_of,
    told_call,
    told_result,
)
from orchestai.tasks.dialogue import Dialogue, Message

UNSUPPORTED = (
    "access_programs",
    "background",
    "context_management",
    "conversation",
    "image",
    "max_tool_calls",
    "moderation",
    "previous_response_id",
    "prompt",
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
    "reasoning",
)
"""Parameters of OpenAI's that clients may know of."""


class _Format(Part):
    type: Literal["text"] = "text"


class _Text(Part):
    format: _Format = _Format()
    verbosity: Empty = None


class _StreamOptions(Part):
    include_obfuscation: bool | None = None


class _ResponsesRequest(CommonRequest):
    input: str | list[dict[str, Any]]
    instructions: str | None = None
    stream_options: _StreamOptions | None = None
    max_output_tokens: int | None = Field(None, ge=1)
    store: bool | None = None
    include: list[Any] | None = Field(None, max_length=0)
    text: _Text | None = None
    truncation: Literal["disabled"] | None = None
    background: Literal[False] | None = None
    previous_response_id: Empty = None
    conversation: Empty = None
    prompt: Empty = None
    reasoning: Empty = None
    max_tool_calls: Empty = None
    prompt_cache_key: Empty = None
    prompt_cache_retention: Empty = None


def read_responses(body: bytes, headers: Mapping[str, str]) -> Asked:
    """What a body asks for.

    Raises:
        ApiError: it is no such request, or asks for what is not supported.
    """
    request = _ResponsesRequest.read(body, UNSUPPORTED)
    items = [{"role": "user", "content": request.input}] if isinstance(request.input, str) else request.input
    if not items:
        raise invalid("input", "it is empty", "missing_required_parameter")
    instructions = request.instructions
    dialogue = Dialogue(
        earlier=(Message(role="system", content=instructions),) if instructions else (),
        max_new_tokens=request.max_output_tokens,
        temperature=request.temperature,
        tool_use=read_tools(request.tools, request.tool_choice, nested=False),
    )
    messages = [_message(item, f"input[{place}]") for place, item in enumerate(items)]
    return request.asked(messages, "input", headers, dialogue, results=_results(items), include_usage=True)


_KINDS = ("input_text", "output_text", "text", "refusal")
_KEYS = {
    "message": ("role", "content"),
    "function_call": ("call_id", "name", "arguments"),
    "function_call_output": ("call_id", "output"),
}
"""Of the kinds of items, beside those that say which item it is."""


def _results(items: list[dict[str, Any]]) -> dict[str, str]:
    """What tools gave since the last other item."""
    results: dict[str, str] = {}
    for item in reversed(items):
        if item.get("type") != "function_call_output":
            break
        results[str(item.get("call_id"))] = text_of(item.get("output"), "input", _KINDS)
    return results


def _message(item: dict[str, Any], where: str) -> Message:
    kind = item.get("type", "message")
    if not isinstance(kind, str) or kind not in _KEYS:
        raise invalid(f"{where}.type", f"{kind!r}: messages and calls of functions are supported", "unsupported_value")
    refuse_others(item, ("id", "type", "status", *_KEYS[kind]), where)
    if kind == "function_call":
        return told_call(str(item.get("name")), str(item.get("arguments") or ""))
    if kind == "function_call_output":
        return told_result(text_of(item.get("output"), f"{where}.output", _KINDS))
    role = item.get("role")
    if role not in ("user", "assistant", "system", "developer"):
        raise invalid(
            f"{where}.role", f"{role!r} is none of user, assistant, system and developer", "unsupported_value"
        )
    return said(role, text_of(item.get("content"), f"{where}.content", _KINDS), where)
