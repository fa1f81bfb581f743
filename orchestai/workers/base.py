"""What a worker is asked, what it answers, and how it is described to planners."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from pydantic import BaseModel, ConfigDict

from orchestai.tasks.examples import Example


@dataclass(frozen=True)
class WorkerCard:
    """How a planner sees a worker. Planners match cards, so a pool can change without retraining.

    Attributes:
        name: key in `workers.pool`.
        text: what the worker is and does best.
        price_usd: expected price of one typical request.
        kind: `model` or `tool`.
    """

    name: str
    text: str
    price_usd: float
    kind: str


@dataclass(frozen=True)
class Signature:
    """The function wanted: `name(parameters...)`."""

    name: str
    parameters: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.name}({', '.join(self.parameters)})"


@dataclass(frozen=True)
class Request:
    """One subtask, as a worker gets it.

    Attributes:
        instruction: the subtask in words.
        signature: the function to write; None where text is wanted (steps before the last, with the `sink` assembler).
        examples: visible examples (of the subtask, or of the task when it is asked whole).
        task_type: the subtask's type.
        role: the planner's role instruction, for workers that take one.
        task: the whole task in words, of which the subtask is a part; only with the `sink` assembler.
        inputs: outputs of the parents by id; only with the `sink` assembler.
        sample: index of this repetition; the same request with another index may be answered otherwise.
        head: program head to complete instead of a generated one (HumanEval's signature and docstring, BigCodeBench's
            imports and signature).
    """

    instruction: str
    signature: Signature | None = None
    examples: tuple[Example, ...] = ()
    task_type: str = ""
    role: str = ""
    task: str = ""
    inputs: Mapping[str, str] = field(default_factory=dict)
    sample: int = 0
    head: str = ""


class Completion(BaseModel):
    """One generation of a language model.

    `source` is `live`, `cache` or `recording`; tokens, text and latency (milliseconds, as measured when it was made)
    are those of the original generation. `origin` says what made it: model, package versions, number format, device.
    """

    model_config = ConfigDict(frozen=True)

    text: str
    prompt_tokens: int
    completion_tokens: int
    latency_ms: float
    source: str = "live"
    origin: str = ""


class Answer(BaseModel):
    """What a worker gave for a request.

    Attributes:
        text: the answer; source code that defines the signature's function where one was wanted.
        prompt: exactly what was asked (for tools: the instruction).
        cost_usd, latency_ms: of the whole answer, all samples that were drawn for it included.
        passed_examples: whether the answer passed the request's examples, None where the worker did not look.
        source: `live`, `cache`, `recording` or `tool`; the least certain of its parts.
    """

    model_config = ConfigDict(frozen=True)

    text: str
    prompt: str = ""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cost_usd: float = 0.0
    latency_ms: float = 0.0
    samples: int = 1
    passed_examples: bool | None = None
    source: str = "live"


class Worker(Protocol):
    """Carries out one subtask at a time; many requests may be in flight.

    `answer` raises `WorkerError` when the worker itself could not answer (recorded, the fallback goes on) and
    `InfrastructureError` when the episode must not be judged (a recording is missing, a server is down for good).
    """

    card: WorkerCard

    async def answer(self, request: Request) -> Answer: ...


class WorkerError(Exception):
    """The worker was asked and could not answer (for example, a tool that does not apply to the request)."""
