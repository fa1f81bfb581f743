"""What surrounds an instruction that was said in a conversation: what was said before it, and how the answer may be."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict


class Message(BaseModel):
    """One message of a conversation."""

    model_config = ConfigDict(frozen=True)

    role: Literal["system", "user", "assistant"]
    content: str


class ToolCall(BaseModel):
    """A call of a client's tool, which the client carries out.

    Attributes:
        arguments: JSON, as the model wrote it.
    """

    model_config = ConfigDict(frozen=True)

    id: str
    name: str
    arguments: str


class ToolUse(BaseModel):
    """The client's tools, as JSON in the format of `/v1/chat/completions`.

    Attributes:
        tools: a list.
        choice: `"auto"`, `"none"`, `"required"` or a tool by name.
        exchange: messages since the question: calls of tools, and what these gave.
    """

    model_config = ConfigDict(frozen=True)

    tools: str
    choice: str = '"auto"'
    exchange: str = "[]"


class Dialogue(BaseModel):
    """Handed to workers that are language models; tools and functions read the instruction alone.

    Attributes:
        earlier: messages before the instruction; every step reads them.
        max_new_tokens, temperature, stop, seed: of the step that answers, where its worker is a language model; a
            worker that writes less keeps its own limit. None and empty leave them to the worker.
        tool_use: of the step that answers; models on servers are told of the tools.
        inputs: what the steps before that step gave, by id, where a run is resumed.
    """

    model_config = ConfigDict(frozen=True)

    earlier: tuple[Message, ...] = ()
    max_new_tokens: int | None = None
    temperature: float | None = None
    stop: tuple[str, ...] = ()
    seed: int | None = None
    tool_use: ToolUse | None = None
    inputs: dict[str, str] = {}

    @property
    def tells_more(self) -> bool:
        """Whether an answer may rest on more than the instruction; what a system message says holds for all."""
        return self.tool_use is not None or any(message.role != "system" for message in self.earlier)

    def of_step(self) -> Dialogue:
        """For a step whose output is not the answer."""
        return Dialogue(earlier=self.earlier)


def fold_messages(
    messages: Iterable[Mapping[str, Any]], *, has_system: bool = True, alternates: bool = False
) -> list[dict[str, Any]]:
    """Messages as a chat template takes them that is narrower than most; nothing that was said is lost.

    Args:
        has_system: whether it has a system role; else such a message begins what the user says next.
        alternates: whether user and assistant must take turns, the user first: messages of one speaker become one, and
            what the assistant said first is told to it.
    """
    folded: list[dict[str, Any]] = []
    joins = False  # whether what the user says next belongs to the message before
    for message in messages:
        role, content = message["role"], message.get("content")
        rules = role == "system" and not has_system
        first = alternates and role == "assistant" and all(one["role"] == "system" for one in folded)
        if rules or first:
            role, content = "user", f"You said first:\n{content}" if first else content
        last = folded[-1] if folded else {}
        plain = not ({"tool_calls", "tool_call_id"} & {*message, *last})
        if plain and last.get("role") == role and (alternates or joins):
            content = "\n\n".join(filter(None, [folded.pop()["content"], content]))
        joins = rules
        folded.append({**message, "role": role, "content": content})
    return folded
