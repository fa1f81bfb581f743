"""What surrounds an instruction that was said in a conversation: what was said before it, and how the answer may be."""

from __future__ import annotations

from typing import Literal

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
