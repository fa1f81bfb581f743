"""A local language model: gathers waiting requests into batches and decodes them in a thread of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import torch
from transformers import PreTrainedTokenizerBase

from orchestai.config import ModelConfig
from orchestai.errors import InfrastructureError
from orchestai.lm import weights
from orchestai.lm.chat_rendering import prompt_ids
from orchestai.workers.base import Completion
from orchestai.workers.decoding import CancelledDecodingError, Decoder, Reply, Row
from orchestai.workers.generation import Prompt, SamplingParams, seed

_GATHER_S = 0.01
"""How long an idle model waits for further requests before it starts on the first."""


@dataclass(frozen=True)
class _Waiting:
    prompt: Prompt
    params: SamplingParams
    sample: int
    future: asyncio.Future[Completion]


@dataclass(frozen=True)
class _Loaded:
    decoder: Decoder
    tokenizer: PreTrainedTokenizerBase
    origin: str


class HuggingFaceGenerator:
    """Batches are made of whatever waits when the model becomes free: first come, first served, and with the first
    all those that share its prefix (its worked examples). The model is loaded on first use."""

    def __init__(self, config: ModelConfig, cache_dir: Path) -> None:
        self.identity = weights.identity(config)
        self._config = config
        self._cache_dir = cache_dir
        self._waiting: list[_Waiting] = []
        self._server: asyncio.Task[None] | None = None
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix=f"model-{config.name}")
        self._closed = threading.Event()
        self._loaded: _Loaded | None = None

    async def generate(self, prompt: Prompt, params: SamplingParams, sample: int) -> Completion:
        waiting = _Waiting(prompt, params, sample, asyncio.get_running_loop().create_future())
        self._waiting.append(waiting)
        if self._server is None or self._server.done():
            self._server = asyncio.create_task(self._serve())
        return await waiting.future

    async def check(self) -> None:
        weights.check_available(self._config)

    async def close(self) -> None:
        self._closed.set()
        if self._server is not None:
            self._server.cancel()
            await asyncio.gather(self._server, return_exceptions=True)
        for waiting in self._waiting:
            waiting.future.cancel()
        await asyncio.get_running_loop().run_in_executor(None, self._thread.shutdown)

    async def _serve(self) -> None:
        await asyncio.sleep(_GATHER_S)
        loop = asyncio.get_running_loop()
        while batch := self._take():
            try:
                await loop.run_in_executor(self._thread, self._answer, batch, loop)
            except BaseException as error:
                for waiting in batch:
                    if not waiting.future.done():
                        if isinstance(error, (asyncio.CancelledError, CancelledDecodingError)):
                            waiting.future.cancel()
                        else:
                            waiting.future.set_exception(error)
                if not isinstance(error, Exception):
                    raise

    def _take(self) -> list[_Waiting]:
        """The next batch: the request that waited longest, and those that share its prefix."""
        self._waiting = [waiting for waiting in self._waiting if not waiting.future.done()]
        if not self._waiting:
            return []
        alike = [waiting for waiting in self._waiting if _prefix(waiting.prompt) == _prefix(self._waiting[0].prompt)]
        batch = alike[: self._config.batch_size]
        taken = set(map(id, batch))
        self._waiting = [waiting for waiting in self._waiting if id(waiting) not in taken]
        return batch

    def _answer(self, batch: Sequence[_Waiting], loop: asyncio.AbstractEventLoop) -> None:
        """Runs in the model's thread; hands every reply to the event loop as soon as it is there."""
        loaded = self._load()
        rows = [self._row(loaded.tokenizer, waiting) for waiting in batch]

        def finished(index: int, reply: Reply) -> None:
            completion = Completion(
                text=reply.text,
                prompt_tokens=len(rows[index].prompt),
                completion_tokens=reply.tokens,
                latency_ms=reply.elapsed_ms,
                origin=loaded.origin,
            )
            loop.call_soon_threadsafe(_resolve, batch[index].future, completion)

        _decode_halving(loaded.decoder, rows, finished, self._closed.is_set)

    def _load(self) -> _Loaded:
        if self._loaded is None:
            model, tokenizer = weights.load(self._config, self._cache_dir)
            self._loaded = _Loaded(Decoder(model, tokenizer), tokenizer, weights.origin(self._config, model))
        return self._loaded

    def _row(self, tokenizer: PreTrainedTokenizerBase, waiting: _Waiting) -> Row:
        return Row(
            prompt=tuple(prompt_ids(tokenizer, waiting.prompt.messages, waiting.prompt.prefill)),
            temperature=waiting.params.temperature,
            max_new_tokens=waiting.params.max_new_tokens,
            stop=waiting.params.stop,
            seed=seed(self.identity, waiting.prompt, waiting.params, waiting.sample),
        )


def _decode_halving(
    decoder: Decoder,
    rows: Sequence[Row],
    finished: Callable[[int, Reply], None],
    cancelled: Callable[[], bool],
) -> None:
    """Decode; where memory runs out, decode what is left in two halves, and so on down to one row."""
    left = list(range(len(rows)))

    def mark(position: int, reply: Reply) -> None:
        done.add(batch[position])
        finished(batch[position], reply)

    queue = [left]
    while queue:
        batch, done = queue.pop(), set[int]()
        try:
            decoder.decode([rows[i] for i in batch], mark, cancelled)
        except (torch.OutOfMemoryError, MemoryError, RuntimeError) as error:
            if not _is_out_of_memory(error):
                raise
            decoder.forget()
            batch = [i for i in batch if i not in done]
            if len(batch) == 1:
                raise InfrastructureError(
                    "memory", f"out of memory with a single prompt of {len(rows[batch[0]].prompt)} tokens: {error}"
                ) from error
            queue += [batch[len(batch) // 2 :], batch[: len(batch) // 2]]


def _is_out_of_memory(error: Exception) -> bool:
    return isinstance(error, (torch.OutOfMemoryError, MemoryError)) or "can't allocate memory" in str(error)


def _prefix(prompt: Prompt) -> tuple[tuple[str, str], ...]:
    """What precedes the question: the system message and worked examples."""
    return prompt.messages[:-1]


def _resolve(future: asyncio.Future[Completion], completion: Completion) -> None:
    if not future.done():
        future.set_result(completion)
