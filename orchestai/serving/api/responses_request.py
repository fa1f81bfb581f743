"""`/v1/responses`: what of OpenAI's format is supported; the rest is refused by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import Field, ValidationError

from orchestai.serving.api.asked import Asked, Extension, first_fault, with_headers
from orchestai.serving.api.chat_request import Empty, One, Part, Zero, text_of, told_call, told_result
from orchestai.serving.api.errors import invalid
from orchestai.serving.api.tools import read_tools
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


class _ResponsesRequest(Part):
    model: str
    input: str | list[dict[str, Any]]
    instructions: str | None = None
    orchestai: Extension = Extension()
    stream: bool | None = None
    stream_options: _StreamOptions | None = None
    max_output_tokens: int | None = Field(None, ge=1)
    temperature: float | None = Field(None, ge=0, le=2)
    metadata: dict[str, str] | None = Field(None, max_length=16)
    user: str | None = Field(None, max_length=512)
    safety_identifier: str | None = Field(None, max_length=512)
    store: bool | None = None
    include: list[Any] | None = Field(None, max_length=0)
    tools: list[Any] | None = None
    tool_choice: Any = None
    parallel_tool_calls: Literal[True] | None = None
    text: _Text | None = None
    top_p: One = None
    top_logprobs: Zero = None
    truncation: Literal["disabled"] | None = None
    service_tier: Literal["auto", "default"] | None = None
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
    try:
        asked = _ResponsesRequest.model_validate_json(body)
    except ValidationError as error:
        raise first_fault(error, known=UNSUPPORTED) from None
    items = [{"role": "user", "content": asked.input}] if isinstance(asked.input, str) else asked.input
    if not items:
        raise invalid("input", "it is empty", "missing_required_parameter")
    results = _results(items)
    *earlier, last = [_message(item, f"input[{place}]") for place, item in enumerate(items)]
    if last.role == "assistant":
        raise invalid(f"input[{len(earlier)}].role", "the last message is to be answered; it is the user's")
    if asked.instructions:
        earlier.insert(0, Message(role="system", content=asked.instructions))
    labels = {**(asked.metadata or {})}
    if user := asked.safety_identifier or asked.user:
        labels["user"] = user
    return Asked(
        model=asked.model,
        instruction=last.content,
        dialogue=Dialogue(
            earlier=tuple(earlier),
            max_new_tokens=asked.max_output_tokens,
            temperature=asked.temperature,
            tool_use=read_tools(asked.tools, asked.tool_choice, nested=False),
        ),
        results=results,
        extension=with_headers(asked.orchestai, headers),
        stream=bool(asked.stream),
        include_usage=True,
        labels=labels,
    )


_KINDS = ("input_text", "output_text", "text", "refusal")


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
    if kind == "function_call":
        return Message(role="assistant", content=told_call(str(item.get("name")), str(item.get("arguments") or "")))
    if kind == "function_call_output":
        return Message(role="user", content=told_result(text_of(item.get("output"), f"{where}.output", _KINDS)))
    if kind != "message":
        raise invalid(f"{where}.type", f"{kind!r}: messages and calls of functions are supported", "unsupported_value")
    role = item.get("role")
    if role not in ("user", "assistant", "system", "developer"):
        raise invalid(
            f"{where}.role", f"{role!r} is none of user, assistant, system and developer", "unsupported_value"
        )
    text = text_of(item.get("content"), f"{where}.content", _KINDS)
    if not text and role != "assistant":
        raise invalid(f"{where}.content", "it is empty", "missing_required_parameter")
    return Message(role="system" if role == "developer" else role, content=text)
