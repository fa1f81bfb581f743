"""Gathers the acts that all conversations of a policy wait for, and samples them in one batch."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from orchestai.lm.backends.base import Generates, SampleSettings
from orchestai.lm.sampling import Completion

if TYPE_CHECKING:
    from torch import Tensor

_GATHER_S = 0.005
"""How long an idle policy waits for further acts before it starts on the first."""


@dataclass(frozen=True, eq=False)
class _Wanted:
    prompt: Tensor
    seed: int
    settings: SampleSettings
    future: asyncio.Future[tuple[Completion, int]] = field(
        default_factory=lambda: asyncio.get_running_loop().create_future()
    )


class Batcher:
    """A batch is what waits when the policy becomes free, the longest waiting first, with equal settings.

    What a batch holds depends on time, but a completion does not depend on its batch (see `Generates.generate`).

    Args:
        weights: held while a batch is sampled; whoever changes the policy's weights holds it too. Policies that share
            weights share it.
        max_rows: most acts in one batch.
    """

    def __init__(self, backend: Generates, *, weights: asyncio.Lock, max_rows: int) -> None:
        self._backend = backend
        self._weights = weights
        self._max_rows = max_rows
        self._waiting: list[_Wanted] = []
        self._server: asyncio.Task[None] | None = None

    async def sample(self, prompt: Tensor, seed: int, settings: SampleSettings) -> tuple[Completion, int]:
        """What comes after `prompt`, (tokens,) int64, and the version of the weights that wrote it.

        Raises:
            UserError: as `Generates.generate`.
        """
        wanted = _Wanted(prompt, seed, settings)
        self._waiting.append(wanted)
        if self._server is None or self._server.done():
            self._server = asyncio.create_task(self._serve())
        return await wanted.future

    async def close(self) -> None:
        """Sample no more; acts that wait are cancelled."""
        if self._server is not None:
            self._server.cancel()
            await asyncio.gather(self._server, return_exceptions=True)
        for wanted in self._waiting:
            wanted.future.cancel()

    async def _serve(self) -> None:
        await asyncio.sleep(_GATHER_S)
        while self._waiting:
            async with self._weights:
                if batch := self._take():
                    await self._sample(batch)

    def _take(self) -> list[_Wanted]:
        """The next batch; acts that nobody waits for any more are dropped."""
        self._waiting = [wanted for wanted in self._waiting if not wanted.future.done()]
        if not self._waiting:
            return []
        alike = [wanted for wanted in self._waiting if wanted.settings == self._waiting[0].settings]
        batch = alike[: self._max_rows]
        taken = set(map(id, batch))
        self._waiting = [wanted for wanted in self._waiting if id(wanted) not in taken]
        return batch

    async def _sample(self, batch: list[_Wanted]) -> None:
        try:
            generation = await self._backend.generate(
                [wanted.prompt for wanted in batch], [wanted.seed for wanted in batch], batch[0].settings
            )
            answered = list(zip(batch, generation.completions, strict=True))
        except BaseException as error:
            for wanted in batch:
                if isinstance(error, asyncio.CancelledError):
                    wanted.future.cancel()
                elif not wanted.future.done():
                    wanted.future.set_exception(error)
            if not isinstance(error, Exception):
                raise
            return
        for wanted, completion in answered:
            if not wanted.future.done():
                wanted.future.set_result((completion, generation.policy_version))
