"""Gathers the requests that wait for a model, and answers them in batches."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from torch import Tensor

    from orchestai.lm.backends.base import Generates, SampleSettings
    from orchestai.lm.sampling import Completion

RequestT = TypeVar("RequestT")
ResultT = TypeVar("ResultT")

_GATHER_S = 0.005
"""How long an idle model waits for further requests before it starts on the first."""


@dataclass(frozen=True, eq=False)
class _Pending(Generic[RequestT, ResultT]):
    request: RequestT
    future: asyncio.Future[ResultT] = field(default_factory=lambda: asyncio.get_running_loop().create_future())

    def resolve(self, result: ResultT) -> None:
        if not self.future.done():
            self.future.set_result(result)


class BatchServer(Generic[RequestT, ResultT]):
    """A batch is what waits when the model becomes free: the request that waited longest, and those like it.

    What a batch holds depends on time, so an answer must not depend on its batch.

    Args:
        answer: answers a batch; calls the function at a request's position, in the event loop, with its result. An
            error is that of all requests that have no result yet.
        alike: what requests of one batch have in common.
        max_rows: most requests in one batch; None is no limit.
        lock: held while a batch is taken and answered; models that exclude each other share it.
    """

    def __init__(
        self,
        answer: Callable[[Sequence[RequestT], Sequence[Callable[[ResultT], None]]], Awaitable[None]],
        *,
        alike: Callable[[RequestT], Hashable],
        max_rows: int | None = None,
        lock: asyncio.Lock | None = None,
    ) -> None:
        self._answer = answer
        self._alike = alike
        self._max_rows = max_rows
        self._lock = lock or asyncio.Lock()
        self._waiting: list[_Pending[RequestT, ResultT]] = []
        self._server: asyncio.Task[None] | None = None

    async def submit(self, request: RequestT) -> ResultT:
        """The answer to a request; raises what `answer` raises for its batch."""
        pending = _Pending[RequestT, ResultT](request)
        self._waiting.append(pending)
        if self._server is None or self._server.done():
            self._server = asyncio.create_task(self._serve())
        return await pending.future

    async def close(self) -> None:
        """Answer no more; requests that wait are cancelled."""
        if self._server is not None:
            self._server.cancel()
            await asyncio.gather(self._server, return_exceptions=True)
        for pending in self._waiting:
            pending.future.cancel()

    async def _serve(self) -> None:
        await asyncio.sleep(_GATHER_S)
        while self._waiting:
            async with self._lock:
                if batch := self._take():
                    try:
                        await self._answer(
                            [pending.request for pending in batch], [pending.resolve for pending in batch]
                        )
                    except BaseException as error:
                        for pending in batch:
                            if isinstance(error, asyncio.CancelledError):
                                pending.future.cancel()
                            elif not pending.future.done():
                                pending.future.set_exception(error)
                        if not isinstance(error, Exception):
                            raise

    def _take(self) -> list[_Pending[RequestT, ResultT]]:
        """The next batch; requests that nobody waits for any more are dropped."""
        self._waiting = [pending for pending in self._waiting if not pending.future.done()]
        if not self._waiting:
            return []
        first = self._alike(self._waiting[0].request)
        batch = [pending for pending in self._waiting if self._alike(pending.request) == first][: self._max_rows]
        taken = set(map(id, batch))
        self._waiting = [pending for pending in self._waiting if id(pending) not in taken]
        return batch


@dataclass(frozen=True, eq=False)
class _Sample:
    prompt: Tensor
    seed: int
    settings: SampleSettings


class Batcher:
    """Samples the turns that all conversations of a policy wait for, in batches of equal settings.

    Args:
        lock: held while a batch is sampled; policies that share weights share it.
    """

    def __init__(self, backend: Generates, *, lock: asyncio.Lock) -> None:
        self._backend = backend
        self._server: BatchServer[_Sample, tuple[Completion, int]] = BatchServer(
            self._generate, alike=lambda sample: sample.settings, lock=lock
        )

    async def sample(self, prompt: Tensor, seed: int, settings: SampleSettings) -> tuple[Completion, int]:
        """What comes after `prompt`, (tokens,) int64, and the version of the weights that wrote it.

        Raises:
            UserError: as `Generates.generate`.
        """
        return await self._server.submit(_Sample(prompt, seed, settings))

    async def close(self) -> None:
        """Sample no more; turns that wait are cancelled."""
        await self._server.close()

    async def _generate(
        self, samples: Sequence[_Sample], resolve: Sequence[Callable[[tuple[Completion, int]], None]]
    ) -> None:
        generation = await self._backend.generate(
            [sample.prompt for sample in samples], [sample.seed for sample in samples], samples[0].settings
        )
        for answer, completion in zip(resolve, generation.completions, strict=True):
            answer((completion, generation.policy_version))
