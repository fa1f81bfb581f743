"""Generations of language models: what is asked for, what makes them, and the cache that remembers them."""

from __future__ import annotations

import asyncio
import hashlib
import json
import sqlite3
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import asdict, dataclass
from functools import lru_cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import diskcache
from pydantic import ValidationError

from orchestai.errors import InfrastructureError, UserError
from orchestai.tasks.dialogue import ToolUse
from orchestai.workers.base import TextCompletion

if TYPE_CHECKING:
    from orchestai.workers.recording import RecordingFile

_CACHE_BYTES = 4 * 2**30


@dataclass(frozen=True)
class Prompt:
    """A chat, and the beginning of the assistant's reply that the model continues.

    Attributes:
        messages: (role, content) pairs; roles are `system`, `user` and `assistant`.
        prefill: text that the reply starts with; the completion's text does not repeat it.
        tool_use: tools that may be called, and what was called since the messages.
    """

    messages: tuple[tuple[str, str], ...]
    prefill: str = ""
    tool_use: ToolUse | None = None

    @property
    def text(self) -> str:
        """The prompt as a person reads it in a log."""
        return "\n".join(content for _, content in self.messages) + (f"\n{self.prefill}" if self.prefill else "")


@dataclass(frozen=True)
class SamplingParams:
    """How to decode: `temperature` 0 is greedy; a reply ends before the first of the `stop` strings."""

    temperature: float = 0.0
    max_new_tokens: int = 96
    stop: tuple[str, ...] = ()


Hear: TypeAlias = Callable[[str], None]
"""Is told the pieces of a reply as they are written."""


class Generator(Protocol):
    """Continues prompts. Calls may run concurrently.

    `identity` names the model as far as its answers depend on it; it is a part of every key. `tries` is how often one
    generation may be asked for, and billed, until there is an answer.
    `hear` is told the reply piece by piece where the model gives it so, and nothing where it comes whole.
    `generate` raises `InfrastructureError` where no completion can be had, `UserError` where the user can mend that.
    """

    identity: str
    tries: int

    async def generate(
        self, prompt: Prompt, params: SamplingParams, sample: int, hear: Hear | None = None
    ) -> TextCompletion: ...

    async def check(self) -> None:
        """Raise `UserError` if the model cannot be reached; cheap, and made before a command starts its work."""
        ...

    async def close(self) -> None: ...


@lru_cache(maxsize=256)
def generation_key(identity: str, prompt: Prompt, params: SamplingParams, sample: int) -> str:
    """128 bits, in hexadecimal, that name one generation. A greedy one is the same for every sample index."""
    asked: dict[str, Any] = {
        "model": identity,
        "prompt": {"messages": prompt.messages, "prefill": prompt.prefill},
        "params": asdict(params),
        "sample": sample if params.temperature > 0 else 0,
    }
    if prompt.tool_use is not None:
        asked["tool_use"] = prompt.tool_use.model_dump()
    canonical = json.dumps(asked, sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return hashlib.sha256(canonical.encode()).hexdigest()[:32]


def seed(identity: str, prompt: Prompt, params: SamplingParams, sample: int) -> int:
    """63 bits that depend on what is asked alone, so that an answer does not depend on what else is asked."""
    return int(generation_key(identity, prompt, params, sample), 16) >> 65


class Cached:
    """Looks a generation up in recordings and on disk before it asks a model; equal requests in flight are asked once.

    A request that nobody waits for any more is cancelled. Several processes may share the folder.

    Args:
        folder: None keeps only the sharing of requests in flight.
        recorded: generations by key.
        file: gets every generation that is given.
        may_run: whether the model may be asked; else what is not found is missing.
    """

    def __init__(
        self,
        inner: Generator,
        folder: Path | None,
        recorded: Mapping[str, TextCompletion] | None = None,
        file: RecordingFile | None = None,
        *,
        may_run: bool = True,
    ) -> None:
        self.identity, self.tries = inner.identity, inner.tries if may_run else 1
        self._inner = inner
        self._folder = folder
        self._recorded = recorded or {}
        self._file = file
        self._may_run = may_run
        self._in_flight: dict[str, asyncio.Task[TextCompletion]] = {}
        self._waiting: Counter[str] = Counter()
        try:
            self._cache = diskcache.Cache(str(folder), size_limit=_CACHE_BYTES) if folder else None
        except (OSError, sqlite3.Error) as error:
            raise self._unusable(error) from error

    async def generate(
        self, prompt: Prompt, params: SamplingParams, sample: int, hear: Hear | None = None
    ) -> TextCompletion:
        key = generation_key(self.identity, prompt, params, sample)
        completion = self._recorded.get(key) or self._get(key)
        if completion is None and not self._may_run:
            raise InfrastructureError(
                "recording_missing",
                f"no recording of {self.identity}, sample {sample}, for the prompt ending in {prompt.text[-80:]!r}; "
                "add a recording to workers.recordings, or set workers.on_miss=live",
            )
        completion = completion or await self._shared(key, partial(self._ask, key, prompt, params, sample, hear))
        if self._file is not None:
            self._file.add(key, prompt, sample, completion)
        return completion

    async def _shared(self, key: str, ask: Callable[[], Coroutine[Any, Any, TextCompletion]]) -> TextCompletion:
        """What one request gives to all who wait for it."""
        task = self._in_flight.get(key)
        if task is None:
            task = self._in_flight[key] = asyncio.ensure_future(ask())
            task.add_done_callback(lambda done: self._leave(key, done))
        self._waiting[key] += 1
        try:
            return await asyncio.shield(task)
        finally:
            self._waiting[key] -= 1
            if not self._waiting[key]:
                del self._waiting[key]
                self._leave(key, task)
                task.cancel()

    async def check(self) -> None:
        if self._may_run:
            await self._inner.check()

    async def close(self) -> None:
        pending = list(self._in_flight.values())
        for task in pending:
            task.cancel()
        await asyncio.gather(*pending, return_exceptions=True)
        await self._inner.close()
        if self._cache is not None:
            self._cache.close()

    def _leave(self, key: str, task: asyncio.Task[TextCompletion]) -> None:
        """Let the next request for `key` begin anew."""
        if self._in_flight.get(key) is task:
            del self._in_flight[key]
        if task.done() and not task.cancelled():
            task.exception()  # taken note of: those who asked may all have left, and asyncio would print a traceback

    async def _ask(
        self, key: str, prompt: Prompt, params: SamplingParams, sample: int, hear: Hear | None
    ) -> TextCompletion:
        completion = await self._inner.generate(prompt, params, sample, hear)
        if self._cache is not None:
            try:
                self._cache.set(key, completion.model_dump_json(exclude={"source"}), retry=True)
            except (OSError, sqlite3.Error) as error:
                raise self._unusable(error) from error
        return completion

    def _get(self, key: str) -> TextCompletion | None:
        if self._cache is None:
            return None
        try:
            stored = self._cache.get(key, retry=True)
        except (OSError, sqlite3.Error) as error:
            raise self._unusable(error) from error
        if stored is None:
            return None
        try:
            return TextCompletion.model_validate_json(stored).model_copy(update={"source": "cache"})
        except ValidationError:
            return None  # damaged; what is asked anew takes its place

    def _unusable(self, error: Exception) -> UserError:
        return UserError(
            f"{self._folder}: the cache of generations is unusable ({error}); "
            "free space, delete the folder, or choose another with workers.cache_dir"
        )
