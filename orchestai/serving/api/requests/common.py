"""What requests of both of OpenAI's formats share: parameters, messages that are texts, and who may speak last."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Annotated, Any, Literal, TypeVar

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import PydanticCustomError

from orchestai.serving.api.errors import invalid
from orchestai.serving.api.requests.asked import Asked, Extension, first_fault, with_headers
from orchestai.tasks.dialogue import Dialogue, Message

_TRACE = ("traceparent", "tracestate")
_PART = ("type", "text", "refusal", "annotations", "logprobs")
"""Keys of a part of a message; the last two are said of texts that a model wrote."""
R = TypeVar("R", bound="CommonRequest")


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


class CommonRequest(Part):
    """The parameters that both formats know by the same name."""

    model: str
    orchestai: Extension = Extension()
    stream: bool | None = None
    temperature: float | None = Field(None, ge=0, le=2)
    metadata: dict[str, str] | None = Field(None, max_length=16)
    user: str | None = Field(None, max_length=512)
    safety_identifier: str | None = Field(None, max_length=512)
    tools: list[Any] | None = None
    tool_choice: Any = None
    parallel_tool_calls: Literal[True] | None = None
    top_p: One = None
    top_logprobs: Zero = None
    service_tier: Literal["auto", "default"] | None = None

    @classmethod
    def read(cls: type[R], body: bytes, unsupported: Sequence[str]) -> R:
        """The request in a body.

        Args:
            unsupported: parameters of OpenAI's that clients may know of.

        Raises:
            ApiError: it is no such request.
        """
        try:
            return cls.model_validate_json(body)
        except ValidationError as error:
            raise first_fault(error, known=unsupported) from None

    def asked(
        self,
        messages: Sequence[Message],
        field: str,
        headers: Mapping[str, str],
        dialogue: Dialogue,
        *,
        results: Mapping[str, str],
        include_usage: bool,
    ) -> Asked:
        """What is asked for: the last message, in the conversation that the others are.

        Args:
            field: where the messages are in the request.
            dialogue: how the answer may be.

        Raises:
            ApiError: the last message is none that can be answered, or a header is wrong.
        """
        *earlier, last = messages
        if last.role == "assistant":
            raise invalid(f"{field}[{len(earlier)}].role", "the last message is to be answered; it is the user's")
        return Asked(
            model=self.model,
            instruction=last.content,
            dialogue=dialogue.model_copy(update={"earlier": (*dialogue.earlier, *earlier)}),
            results=results,
            conversation=field,
            extension=with_headers(self.orchestai, headers),
            stream=bool(self.stream),
            include_usage=include_usage,
            trace={name: headers[name] for name in _TRACE if name in headers},
            metadata=self.metadata or {},
            user=self.safety_identifier or self.user,
        )


def refuse_others(given: Mapping[str, Any], known: Collection[str], where: str) -> None:
    """Refuse what would be ignored; null asks for nothing.

    Raises:
        ApiError: there is another key.
    """
    for name, value in given.items():
        if name not in known and value is not None:
            raise invalid(f"{where}.{name}", "this is not supported here; leave it out", "unsupported_parameter")


def told_call(name: str, arguments: str) -> Message:
    """A call of a tool that is long past, in words."""
    return Message(role="assistant", content=f"(I called {name} with {arguments or '{}'}.)")


def told_result(text: str) -> Message:
    """What it gave, in words."""
    return Message(role="user", content=f"(The tool gave: {text})")


def said(role: str, text: str, where: str) -> Message:
    """A message; a developer's is the system's.

    Raises:
        ApiError: it is empty, which only an assistant's may be.
    """
    if role != "assistant" and not text:
        raise invalid(f"{where}.content", "it is empty", "missing_required_parameter")
    return Message.model_validate({"role": "system" if role == "developer" else role, "content": text})


def text_of(content: Any, where: str, kinds: Sequence[str]) -> str:
    """The text of a message's content: a text, or a list of parts of these kinds.

    Raises:
        ApiError: there are others, or one has a key that is not known.
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
        refuse_others(part, _PART, f"{where}[{place}]")
        text = part.get("refusal" if kind == "refusal" else "text")
        if not isinstance(text, str):
            raise invalid(f"{where}[{place}].text", "a text is expected", "invalid_type")
        texts.append(text)
    return "\n".join(texts)
