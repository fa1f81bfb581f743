"""What surrounds an instruction that was said in a conversation: what was said before it, and how the answer may be."""

from __future__ import annotations

from typing import Literal

from pydantic import BaseModel, ConfigDict


class Message(BaseModel):
    """One message of a conversation."""

    model_config = ConfigDict(frozen=True)

    role: Literal["system", "user", "assistant"]
    content: str


class Dialogue(BaseModel):
    """Handed to workers that are language models; tools and functions read the instruction alone.

    Attributes:
        earlier: messages before the instruction; every step reads them.
        max_new_tokens, temperature, stop, seed: of the step that answers, where its worker is a language model; a
            worker that writes less keeps its own limit. None and empty leave them to the worker.
    """

    model_config = ConfigDict(frozen=True)

    earlier: tuple[Message, ...] = ()
    max_new_tokens: int | None = None
    temperature: float | None = None
    stop: tuple[str, ...] = ()
    seed: int | None = None

    def of_step(self) -> Dialogue:
        """For a step whose output is not the answer."""
        return Dialogue(earlier=self.earlier)
