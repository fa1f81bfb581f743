"""`/v1/chat/completions`: what of OpenAI's format is supported; the rest is refused by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from pydantic import Field

from orchestai.serving.api.errors import invalid
from orchestai.serving.api.requests.common import (
    Asked,
    CommonRequest,
    Empty,
    One,
    Part,
    Zero,
    read_tools,
    said,
    text_of,
    told_call,
    told_result,
)
from orchestai.tasks.dialogue import Dialogue, Message

UNSUPPORTED = (
    "audio",
    "function_call",
    "functions",
    "moderation",
    "prediction",
    "prompt_cache_key",
    "prompt_cache_options",
    "prompt_cache_retention",
    "reasoning_effort",
    "verbosity",
    "web_search_options",
)
"""Parameters of OpenAI's that clients may know of."""


class _StreamOptions(Part):
    include_usage: bool | None = None
    include_obfuscation: Literal[False] | None = None


class _ResponseFormat(Part):
    type: Literal["text"]


class _Function(Part):
    name: str
    arguments: str


class _ToolCall(Part):
    id: str
    type: Literal["function"] = "function"
    function: _Function


class _Message(Part):
    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: Any = None
    name: str | None = None
    refusal: str | None = None
    audio: Empty = None
    tool_calls: list[_ToolCall] | None = None
    tool_call_id: str | None = None
    function_call: Empty = None
    annotations: Any = None


class _ChatRequest(CommonRequest):
    messages: list[_Message] = Field(min_length=1)
    stream_options: _StreamOptions | None = None
    max_tokens: int | None = Field(None, ge=1)
    max_completion_tokens: int | None = Field(None, ge=1)
    stop: str | list[str] | None = None
    seed: int | None = Field(None, ge=-(2**63), lt=2**63)
    n: One = None
    frequency_penalty: Zero = None
    presence_penalty: Zero = None
    logit_bias: Empty = None
    logprobs: Literal[False] | None = None
    store: Literal[False] | None = None
    modalities: list[Literal["text"]] | None = None
    response_format: _ResponseFormat | None = None


def read_chat(body: bytes, headers: Mapping[str, str]) -> Asked:
    """What a body asks for.

    Raises:
        ApiError: it is no such request, or asks for what is not supported.
    """
    chat = _ChatRequest.read(body, UNSUPPORTED)
    if chat.stream_options is not None and not chat.stream:
        raise invalid("stream_options", "it is for streams; set stream")
    if chat.max_tokens and chat.max_completion_tokens and chat.max_tokens != chat.max_completion_tokens:
        raise invalid("max_tokens", "max_completion_tokens says another number; set one of them")
    stop = [chat.stop] if isinstance(chat.stop, str) else chat.stop or []
    if len(stop) > 4 or not all(stop):
        raise invalid("stop", "up to four texts, none of them empty")
    dialogue = Dialogue(
        max_new_tokens=chat.max_completion_tokens or chat.max_tokens,
        temperature=chat.temperature,
        stop=tuple(stop),
        seed=None if chat.seed is None else chat.seed % 2**31,
        tool_use=read_tools(chat.tools, chat.tool_choice, nested=True),
    )
    return chat.asked(
        [_message(message, f"messages[{place}]") for place, message in enumerate(chat.messages)],
        "messages",
        headers,
        dialogue,
        results=_results(chat.messages),
        include_usage=bool(chat.stream_options and chat.stream_options.include_usage),
    )


def _results(messages: Sequence[_Message]) -> dict[str, str]:
    """What tools gave since the last other message."""
    results: dict[str, str] = {}
    for message in reversed(messages):
        if message.role != "tool":
            break
        results[message.tool_call_id or ""] = text_of(message.content, "messages", ("text",))
    return results


def _message(message: _Message, where: str) -> Message:
    if message.role == "tool":
        if not message.tool_call_id:
            raise invalid(f"{where}.tool_call_id", "it is required", "missing_required_parameter")
        return told_result(text_of(message.content, f"{where}.content", ("text",)))
    text = text_of(message.content, f"{where}.content", ("text", "refusal"))
    if message.tool_calls:
        calls = [told_call(call.function.name, call.function.arguments).content for call in message.tool_calls]
        return Message(role="assistant", content="\n".join([*filter(None, [text]), *calls]))
    text = text or message.refusal or ""
    named = text and message.name and message.role == "user"
    return said(message.role, f"{message.name}: {text}" if named else text, where)
