"""`/v1/chat/completions`: what of OpenAI's format is supported; the rest is refused by name."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import PydanticCustomError

from orchestai.serving.api.asked import Asked, Extension, first_fault, with_headers
from orchestai.serving.api.errors import invalid
from orchestai.serving.api.tools import read_tools
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


def _zero(value: float | None) -> float | None:
    if value:
        raise PydanticCustomError("unsupported_value", "only 0 is supported")
    return value


def _one(value: float | None) -> float | None:
    if value not in (None, 1):
        raise PydanticCustomError("unsupported_value", "only 1 is supported")
    return value


def _empty(value: Any) -> Any:
    if value:
        raise PydanticCustomError("unsupported_value", "only null is supported")
    return value


Zero = Annotated[float | None, AfterValidator(_zero)]
One = Annotated[float | None, AfterValidator(_one)]
Empty = Annotated[Any, AfterValidator(_empty)]


class Part(BaseModel):
    """A part of a request; unknown keys are refused, and types are not guessed."""

    model_config = ConfigDict(extra="forbid", strict=True)


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


class _ChatRequest(Part):
    model: str
    messages: list[_Message] = Field(min_length=1)
    orchestai: Extension = Extension()
    stream: bool | None = None
    stream_options: _StreamOptions | None = None
    max_tokens: int | None = Field(None, ge=1)
    max_completion_tokens: int | None = Field(None, ge=1)
    temperature: float | None = Field(None, ge=0, le=2)
    stop: str | list[str] | None = None
    seed: int | None = Field(None, ge=-(2**63), lt=2**63)
    metadata: dict[str, str] | None = Field(None, max_length=16)
    user: str | None = Field(None, max_length=512)
    safety_identifier: str | None = Field(None, max_length=512)
    n: One = None
    top_p: One = None
    frequency_penalty: Zero = None
    presence_penalty: Zero = None
    top_logprobs: Zero = None
    logit_bias: Empty = None
    logprobs: Literal[False] | None = None
    store: Literal[False] | None = None
    tools: list[Any] | None = None
    tool_choice: Any = None
    parallel_tool_calls: Literal[True] | None = None
    modalities: list[Literal["text"]] | None = None
    response_format: _ResponseFormat | None = None
    service_tier: Literal["auto", "default"] | None = None


def read_chat(body: bytes, headers: Mapping[str, str]) -> Asked:
    """What a body asks for.

    Raises:
        ApiError: it is no such request, or asks for what is not supported.
    """
    try:
        chat = _ChatRequest.model_validate_json(body)
    except ValidationError as error:
        raise first_fault(error, known=UNSUPPORTED) from None
    if chat.stream_options is not None and not chat.stream:
        raise invalid("stream_options", "it is for streams; set stream")
    if chat.max_tokens and chat.max_completion_tokens and chat.max_tokens != chat.max_completion_tokens:
        raise invalid("max_tokens", "max_completion_tokens says another number; set one of them")
    stop = [chat.stop] if isinstance(chat.stop, str) else chat.stop or []
    if len(stop) > 4 or not all(stop):
        raise invalid("stop", "up to four texts, none of them empty")
    messages = [_message(message, f"messages[{place}]") for place, message in enumerate(chat.messages)]
    results = _results(chat.messages)
    *earlier, last = messages
    if last.role == "assistant":
        raise invalid(f"messages[{len(earlier)}].role", "the last message is to be answered; it is the user's")
    labels = {**(chat.metadata or {})}
    if user := chat.safety_identifier or chat.user:
        labels["user"] = user
    return Asked(
        model=chat.model,
        instruction=last.content,
        dialogue=Dialogue(
            earlier=tuple(earlier),
            max_new_tokens=chat.max_completion_tokens or chat.max_tokens,
            temperature=chat.temperature,
            stop=tuple(stop),
            seed=None if chat.seed is None else chat.seed % 2**31,
            tool_use=read_tools(chat.tools, chat.tool_choice, nested=True),
        ),
        results=results,
        extension=with_headers(chat.orchestai, headers),
        stream=bool(chat.stream),
        include_usage=bool(chat.stream_options and chat.stream_options.include_usage),
        labels=labels,
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
        return Message(role="user", content=told_result(text_of(message.content, f"{where}.content", ("text",))))
    if message.tool_calls:
        said = text_of(message.content, f"{where}.content", ("text", "refusal"))
        calls = [told_call(call.function.name, call.function.arguments) for call in message.tool_calls]
        return Message(role="assistant", content="\n".join([*filter(None, [said]), *calls]))
    text = text_of(message.content, f"{where}.content", ("text", "refusal")) or message.refusal or ""
    if message.role != "assistant" and not text:
        raise invalid(f"{where}.content", "it is empty", "missing_required_parameter")
    role = "system" if message.role == "developer" else message.role
    return Message(role=role, content=f"{message.name}: {text}" if message.name and role == "user" else text)


def told_call(name: str, arguments: str) -> str:
    """A call of a tool that is long past, in words."""
    return f"(I called {name} with {arguments or '{}'}.)"


def told_result(text: str) -> str:
    """What it gave, in words."""
    return f"(The tool gave: {text})"


def text_of(content: Any, where: str, kinds: Sequence[str]) -> str:
    """The text of a message's content: a text, or a list of parts of these kinds.

    Raises:
        ApiError: there are others.
    """
    if content is None or isinstance(content, str):
        return content or ""
    if not isinstance(content, list):
        raise invalid(where, "a text, or a list of parts, is expected", "invalid_type")
    texts = []
    for place, part in enumerate(content):
        kind = part.get("type") if isinstance(part, dict) else None
        if kind not in kinds:
            raise invalid(f"{where}[{place}].type", f"{kind!r}: only text is supported", "unsupported_value")
        text = part.get("refusal" if kind == "refusal" else "text")
        if not isinstance(text, str):
            raise invalid(f"{where}[{place}].text", "a text is expected", "invalid_type")
        texts.append(text)
    return "\n".join(texts)
