"""What a worker is asked, what it answers, and how it is described to planners."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Annotated, Literal, Protocol, runtime_checkable

from pydantic import AfterValidator, BaseModel, ConfigDict, Field

from orchestai.tasks.dialogue import Dialogue, ToolCall
from orchestai.tasks.visible_examples import Example
from orchestai.text.spoken import spoken


@dataclass(frozen=True)
class WorkerCard:
    """How a planner sees a worker. Planners match cards, so a pool can change without retraining.

    Attributes:
        name: key in `workers.pool`.
        text: what the worker is and does best.
        price_usd: expected price of one typical request.
        kind: `model` if it asks a language model, else `tool`: all that planners know of how it works, whatever kind
            its configuration says. Weights have learned from this distinction, so it stays one.
    """

    name: str
    text: str
    price_usd: float
    kind: Literal["model", "tool"]


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
        signature: the function to write; None where text is wanted (all steps of a task that wants a text, and with the
            `sink` assembler those before the last).
        examples: visible examples (of the subtask, or of the task when it is asked whole).
        task_type: the subtask's type.
        role: the planner's role instruction, for workers that take one.
        task: the whole task in words, of which the subtask is a part; only where texts are handed on.
        inputs: outputs of the parents by id; only where texts are handed on.
        sample: index of this repetition; the same request with another index may be answered otherwise.
        head: program head to complete instead of a generated one (HumanEval's signature and docstring, BigCodeBench's
            imports and signature).
        answer_format: what a text that answers the task has to look like, in a sentence.
        dialogue: the conversation in which the task was said, if it was.
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
    answer_format: str = ""
    dialogue: Dialogue | None = None

    @property
    def text(self) -> str:
        """The instruction followed by the texts of the parents, for what reads one text."""
        return "\n\n".join([self.instruction, *self.inputs.values()])


class Usage(BaseModel):
    """What asking models took.

    Attributes:
        cost_usd: US dollars; without prices, 0.
        cached_tokens: of the prompts', those that the server had read before.
        latency_ms: as measured when the answers were made; of requests one after the other, their sum.
        estimated: whether tokens, and so the cost, were counted here, since a server did not say.
    """

    model_config = ConfigDict(frozen=True)

    requests: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = Field(0, exclude_if=lambda tokens: not tokens)
    cost_usd: float = 0.0
    latency_ms: float = 0.0
    estimated: bool = False

    def plus(self, other: Usage) -> Usage:
        return Usage(
            requests=self.requests + other.requests,
            prompt_tokens=self.prompt_tokens + other.prompt_tokens,
            completion_tokens=self.completion_tokens + other.completion_tokens,
            cached_tokens=self.cached_tokens + other.cached_tokens,
            cost_usd=self.cost_usd + other.cost_usd,
            latency_ms=self.latency_ms + other.latency_ms,
            estimated=self.estimated or other.estimated,
        )


@dataclass(frozen=True)
class WorstCase:
    """What one request may take at most.

    Attributes:
        cost_usd: of every try and every sample that may be billed.
        calls: tries and samples that may be billed.
        output_bytes: length of an unusually long answer, in UTF-8; the requests of the steps that read it are bounded
            with it, and again with the answer itself.
    """

    cost_usd: float = 0.0
    calls: int = 1
    output_bytes: int = 4096


class TextCompletion(BaseModel):
    """One generation of a language model, without its thoughts.

    `source` is `live`, `cache` or `recording`; tokens, text and latency (milliseconds, as measured when it was made)
    are those of the original generation. `origin` says what made it: model, package versions, dtype, device.
    `usage_estimated`: its server did not say how many tokens it took, and they were counted here. `tool_calls`: of the
    client's tools, without which the model does not go on. `truncated`: there were no more tokens for the rest.
    """

    model_config = ConfigDict(frozen=True)

    text: Annotated[str, AfterValidator(spoken)]
    prompt_tokens: int
    completion_tokens: int
    cached_tokens: int = Field(0, exclude_if=lambda tokens: not tokens)
    latency_ms: float
    source: str = "live"
    origin: str = ""
    usage_estimated: bool = Field(False, exclude_if=lambda estimated: not estimated)
    tool_calls: tuple[ToolCall, ...] = Field((), exclude_if=lambda calls: not calls)
    truncated: bool = Field(False, exclude_if=lambda truncated: not truncated)

    @property
    def usage(self) -> Usage:
        """What it took; its cost is up to whoever knows the price."""
        return Usage(
            requests=1,
            prompt_tokens=self.prompt_tokens,
            completion_tokens=self.completion_tokens,
            cached_tokens=self.cached_tokens,
            latency_ms=self.latency_ms,
            estimated=self.usage_estimated,
        )


class Answer(BaseModel):
    """What a worker gave for a request.

    Attributes:
        text: the answer; source code that defines the signature's function where one was wanted.
        prompt: exactly what was asked (for tools: the instruction).
        cost_usd, latency_ms: of the whole answer, all samples that were drawn for it included.
        passed_examples: whether the answer passed the request's examples, None where the worker did not look.
        source: `live`, `cache`, `recording` or `tool`; the least certain of its parts.
        usage_estimated: whether tokens, and so the cost, were counted here, since the server did not say.
        tool_calls: of the client's tools, which are to be carried out before there is an answer.
        truncated: whether there were no more tokens for the rest of it.
    """

    model_config = ConfigDict(frozen=True)

    text: str
    prompt: str = ""
    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    cost_usd: float = 0.0
    latency_ms: float = 0.0
    samples: int = 1
    passed_examples: bool | None = None
    source: str = "live"
    usage_estimated: bool = False
    tool_calls: tuple[ToolCall, ...] = ()
    truncated: bool = False

    @property
    def usage(self) -> Usage:
        return Usage(
            requests=1,
            prompt_tokens=self.prompt_tokens,
            completion_tokens=self.completion_tokens,
            cost_usd=self.cost_usd,
            latency_ms=self.latency_ms,
            estimated=self.usage_estimated,
        )


class Worker(Protocol):
    """Carries out one subtask at a time; many requests may be in flight.

    `answer` raises `WorkerError` when the worker itself could not answer (recorded, the fallback goes on) and
    `InfrastructureError` when the episode must not be judged (a recording is missing, a server is down for good).
    """

    card: WorkerCard

    async def answer(self, request: Request) -> Answer: ...

    def worst_case(self, request: Request) -> WorstCase:
        """What `answer` may cost at most; known without asking anybody."""
        ...


@runtime_checkable
class SpeakingWorker(Protocol):
    """A worker whose texts can be heard while it writes them."""

    async def speak(self, request: Request, hear: Callable[[str], None]) -> Answer:
        """`Worker.answer`; the pieces that `hear` is told are the text, or its beginning."""
        ...


class WorkerError(Exception):
    """The worker was asked and could not answer (for example, a tool that does not apply to the request).

    Attributes:
        usage: what was paid all the same.
    """

    def __init__(self, reason: str, usage: Usage | None = None) -> None:
        super().__init__(reason)
        self.usage = usage or Usage()


class ImpossibleError(WorkerError):
    """The worker has understood the request, and nobody can carry it out; the reason begins with `SAYS`."""

    SAYS = "impossible: "

    def __init__(self, reason: str) -> None:
        super().__init__(f"{self.SAYS}{reason}")
