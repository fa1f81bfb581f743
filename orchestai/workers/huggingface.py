"""A local language model behind a worker."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from orchestai.config import ModelConfig
from orchestai.errors import InfrastructureError, UserError
from orchestai.lm import local_models
from orchestai.lm.batcher import BatchServer
from orchestai.workers.base import TextCompletion, WorkerError
from orchestai.workers.generation import Hear, Prompt, SamplingParams, seed

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase

    from orchestai.lm.text_generation import Decoder, Reply, Row


@dataclass(frozen=True)
class _Asked:
    prompt: Prompt
    params: SamplingParams
    sample: int

    @property
    def prefix(self) -> tuple[tuple[str, str], ...]:
        """What precedes the question: the system message and worked examples."""
        return self.prompt.messages[:-1]


@dataclass(frozen=True)
class _Loaded:
    decoder: Decoder
    tokenizer: PreTrainedTokenizerBase
    origin: str


class HuggingFaceGenerator:
    """A model in a thread of its own. Requests that share worked examples share batches.

    It is loaded on first use, and so are the libraries that it needs: torch takes seconds.
    """

    tries = 1

    def __init__(self, config: ModelConfig, cache_dir: Path, key: str) -> None:
        """
        Args:
            key: of the model's section (`workers.models.NAME`), for messages.
        """
        self.identity = local_models.identity(config)
        self._config = config
        self._key = key
        self._cache_dir = cache_dir
        self._server: BatchServer[_Asked, TextCompletion] = BatchServer(
            self._answer, alike=lambda asked: asked.prefix, max_rows=config.batch_size
        )
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix=f"model-{config.name}")
        self._closed = threading.Event()
        self._loaded: _Loaded | None = None

    async def generate(
        self, prompt: Prompt, params: SamplingParams, sample: int, hear: Hear | None = None
    ) -> TextCompletion:
        return await self._server.submit(_Asked(prompt, params, sample))

    async def check(self) -> None:
        local_models.check_available(self._config, self._key)

    async def close(self) -> None:
        self._closed.set()
        await self._server.close()
        await asyncio.get_running_loop().run_in_executor(None, self._thread.shutdown)

    async def _answer(self, batch: Sequence[_Asked], resolve: Sequence[Callable[[TextCompletion], None]]) -> None:
        loop = asyncio.get_running_loop()
        await loop.run_in_executor(
            self._thread, self._decode, batch, lambda i, completion: loop.call_soon_threadsafe(resolve[i], completion)
        )

    def _decode(self, batch: Sequence[_Asked], finished: Callable[[int, TextCompletion], object]) -> None:
        """Runs in the model's thread; hands over every completion as soon as it is there."""
        from orchestai.lm import loading, weights
        from orchestai.lm.text_generation import Decoder, PrefixStore

        if self._loaded is None:
            with loading.quietly():
                model, tokenizer = weights.load(self._config, self._cache_dir, self._key)
            store = PrefixStore(self._cache_dir / "prefixes", model)
            decoder = Decoder(model, tokenizer, store=store)
            self._loaded = _Loaded(decoder, tokenizer, weights.origin(self._config, model))
        loaded = self._loaded
        beginning = self._ids(loaded.tokenizer, (*batch[0].prefix, ("user", ".")))
        rows = [self._row(loaded.tokenizer, asked, beginning) for asked in batch]

        def complete(index: int, reply: Reply) -> None:
            completion = TextCompletion(
                text=reply.text,
                prompt_tokens=len(rows[index].prompt),
                completion_tokens=reply.tokens,
                latency_ms=reply.elapsed_ms,
                origin=loaded.origin,
                truncated=reply.truncated,
            )
            finished(index, completion)

        _decode_halving(loaded.decoder, rows, complete, self._closed.is_set)

    def _row(self, tokenizer: PreTrainedTokenizerBase, asked: _Asked, beginning: tuple[int, ...]) -> Row:
        from orchestai.lm.text_generation import Row, common_start

        prompt = self._ids(tokenizer, asked.prompt.messages, asked.prompt.prefill)
        return Row(
            prompt=prompt,
            beginning=common_start((prompt, beginning)),
            temperature=asked.params.temperature,
            max_new_tokens=asked.params.max_new_tokens,
            stop=asked.params.stop,
            seed=seed(self.identity, asked.prompt, asked.params, asked.sample),
        )

    def _ids(
        self, tokenizer: PreTrainedTokenizerBase, messages: Sequence[tuple[str, str]], prefill: str = ""
    ) -> tuple[int, ...]:
        from orchestai.lm.chat_rendering import prompt_ids

        thinking = self._config.thinking
        try:
            return tuple(prompt_ids(tokenizer, messages, prefill, key=f"{self._key}.name", enable_thinking=thinking))
        except UserError as error:
            raise WorkerError(str(error)) from error


def _decode_halving(
    decoder: Decoder,
    rows: Sequence[Row],
    finished: Callable[[int, Reply], None],
    cancelled: Callable[[], bool],
) -> None:
    """Decode; where memory runs out, decode what is left in two halves, and so on down to one row."""
    import torch

    left = list(range(len(rows)))

    def mark(position: int, reply: Reply) -> None:
        done.add(batch[position])
        finished(batch[position], reply)

    queue = [left]
    while queue:
        batch, done = queue.pop(), set[int]()
        try:
            decoder.decode([rows[i] for i in batch], mark, cancelled)
        except (MemoryError, RuntimeError) as error:
            if not (isinstance(error, torch.OutOfMemoryError | MemoryError) or "can't allocate memory" in str(error)):
                raise
            decoder.forget()
            batch = [i for i in batch if i not in done]
            if len(batch) == 1:
                raise InfrastructureError(
                    "memory", f"out of memory with a single prompt of {len(rows[batch[0]].prompt)} tokens: {error}"
                ) from error
            queue += [batch[len(batch) // 2 :], batch[: len(batch) // 2]]
