"""What roles speak with: weights that learn, token for token, or a model or worker that does not."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from orchestai.agents.budget import BudgetExceededError
from orchestai.agents.conversation import Act, Sampled
from orchestai.lm.backends.base import SampleSettings
from orchestai.lm.batcher import Batcher
from orchestai.lm.chat_rendering import IncrementalChatRenderer
from orchestai.types import Message
from orchestai.workers.base import Request, WorkerError
from orchestai.workers.generation import Generator, Prompt, SamplingParams
from orchestai.workers.pool import WorkerPool


class Seeds:
    """Seeds of the acts of one attempt. An act's depends on its role and on what it answers to, and on nothing else
    that happens meanwhile; only where one role answers the same twice, on which comes first.

    Args:
        attempt: tells attempts apart (`rollout.row_seed`).
    """

    def __init__(self, attempt: int) -> None:
        self._attempt = attempt
        self._asked: Counter[bytes] = Counter()

    def next(self, role: str, prompt: Tensor) -> int:
        """63 bits for an act of `role` after `prompt`, (tokens,) int64."""
        digest = hashlib.sha256(f"{self._attempt}/{role}/".encode() + prompt.numpy().tobytes())
        asked = digest.digest()
        digest.update(str(self._asked[asked]).encode())
        self._asked[asked] += 1
        return int.from_bytes(digest.digest()[:8], "big") >> 1


@dataclass(frozen=True)
class ServedPolicy:
    """A policy as all its conversations use it.

    Attributes:
        context: most tokens of a prompt with what is written after it; None where the model sets no limit.
    """

    name: str
    batcher: Batcher
    renderer: IncrementalChatRenderer
    context: int | None = None


class PolicyChatModel:
    """Speaks with the weights of a policy: tokens in, tokens out. One per conversation.

    The next prompt is the last one, what was written after it, and the tokens of what was told since
    (`IncrementalChatRenderer`). It is written anew where a workflow has changed messages that were said before.

    Args:
        settings: its limit of tokens holds for every act.
        seeds: of the attempt.
    """

    trainable = True

    def __init__(self, served: ServedPolicy, role: str, settings: SampleSettings, seeds: Seeds) -> None:
        self.policy = served.name
        self._served = served
        self._role = role
        self._settings = settings
        self._seeds = seeds
        self._said: list[Message] = []
        self._read: list[int] = []
        self._written: list[int] = []
        self._ended = False

    async def say(self, messages: Sequence[Message], max_new_tokens: int | None = None) -> Act:
        """Sample the next turn; see `ChatModel.say`.

        Raises:
            BudgetExceededError: the messages fill the model's context.
            UserError: the template refuses the messages, or the engine the request.
        """
        ids = self._prompt(messages)
        context = self._served.context
        if context is not None and len(ids) >= context:
            raise BudgetExceededError(f"{self._role}: {len(ids)} tokens, but the model reads {context}")
        settings = self._settings
        if max_new_tokens is not None and max_new_tokens < settings.max_new_tokens:
            settings = replace(settings, max_new_tokens=max_new_tokens)
        prompt = torch.tensor(ids)
        completion, version = await self._served.batcher.sample(prompt, self._seeds.next(self._role, prompt), settings)
        written = completion.ids.tolist()
        text = self._served.renderer.decode(written[:-1] if completion.ended else written)
        self._said = [*messages, {"role": "assistant", "content": text}]
        self._read, self._written, self._ended = ids, written, completion.ended
        sampled = Sampled(prompt, completion.ids, completion.logp, version, settings.max_new_tokens)
        return Act(text, completion.ended, len(written), sampled)

    def _prompt(self, messages: Sequence[Message]) -> list[int]:
        known = len(self._said)
        if known and list(messages[:known]) == self._said:
            return self._served.renderer.extend(self._read, self._written, self._ended, messages, known)
        return self._served.renderer.render(messages)


class PooledChatModel:
    """Speaks with a model that does not learn, a key of `workers.models`.

    Args:
        sample: tells attempts apart; with the same, equal questions get equal answers.
    """

    trainable = False

    def __init__(self, policy: str, generator: Generator, params: SamplingParams, sample: int = 0) -> None:
        self.policy = policy
        self._generator = generator
        self._params = params
        self._sample = sample

    async def say(self, messages: Sequence[Message], max_new_tokens: int | None = None) -> Act:
        """Ask the model; see `ChatModel.say`. A tool's result is told as the user's message, since servers differ.

        A model that cannot answer (the messages are too long for it, or its provider refuses them) says why.
        """
        limit = min(max_new_tokens or self._params.max_new_tokens, self._params.max_new_tokens)
        params = replace(self._params, max_new_tokens=limit)
        chat = tuple((_asker(message), message["content"]) for message in messages)
        try:
            completion = await self._generator.generate(Prompt(chat), params, self._sample)
        except WorkerError as error:
            return Act(f"error: {error}", True, error.usage.completion_tokens)
        return Act(completion.text, completion.completion_tokens < limit, completion.completion_tokens)


class WorkerChatModel:
    """Speaks with a worker of the pool, which reads the system's message as its role and the others as its instruction.

    Args:
        sample: see `PooledChatModel`.
    """

    trainable = False

    def __init__(self, policy: str, pool: WorkerPool, worker: str, sample: int = 0) -> None:
        self.policy = policy
        self._pool = pool
        self._worker = worker
        self._sample = sample

    async def say(self, messages: Sequence[Message], max_new_tokens: int | None = None) -> Act:
        """Ask the worker; see `ChatModel.say`. One that cannot answer says why; its limit of tokens is its own."""
        role = "\n\n".join(message["content"] for message in messages if message["role"] == "system")
        rest = [message for message in messages if message["role"] != "system"]
        text = rest[0]["content"] if len(rest) == 1 else "\n\n".join(f"{m['role']}: {m['content']}" for m in rest)
        try:
            answer = await self._pool.answer(self._worker, Request(text, role=role, sample=self._sample))
        except WorkerError as error:
            return Act(f"error: {error}", True, error.usage.completion_tokens, cost_usd=error.usage.cost_usd)
        return Act(answer.text, True, answer.completion_tokens, cost_usd=answer.cost_usd)


def _asker(message: Message) -> str:
    return "user" if message["role"] == "tool" else message["role"]
