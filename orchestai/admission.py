"""Waiting in an event loop for a place, an outcome or a call: whoever gives up is gone, and need not be waited for."""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import Coroutine
from types import TracebackType
from typing import Any, TypeVar

T = TypeVar("T")
_TO_STOP_S = 0.05
"""How long a cancelled call may take to end."""


class TooLateError(Exception):
    """A deadline came first."""


async def by_deadline(outcome: asyncio.Future[T], deadline: float | None) -> T:
    """What a future gives.

    Args:
        deadline: on the clock of `time.monotonic`; None is none.

    Raises:
        TooLateError: the deadline came first; it is the future's outcome, too.
    """
    if deadline is None:
        return await outcome

    def give_up() -> None:
        if not outcome.done():
            outcome.set_exception(TooLateError())

    timer = asyncio.get_running_loop().call_later(max(0.0, deadline - time.monotonic()), give_up)
    try:
        return await outcome
    finally:
        timer.cancel()


async def heeding_cancellation(call: Coroutine[Any, Any, T]) -> T:
    """What a call gives; once this is cancelled, the call has a moment to end, and is then left to itself."""
    running = asyncio.ensure_future(call)
    try:
        await asyncio.wait({running})
    except asyncio.CancelledError:
        running.cancel()
        await asyncio.wait({running}, timeout=_TO_STOP_S)
        # Note how it ends, which nobody waits for, or asyncio would print it
        running.add_done_callback(lambda call: call.cancelled() or call.exception())
        raise
    return running.result()


class Admission:
    """Lets in so many at a time, first come first served; a context manager for those without a deadline.

    Unlike `asyncio.Semaphore`, which searches all that wait for the one that gives up, it takes no longer with
    thousands of them.
    """

    def __init__(self, places: int) -> None:
        self._free = places
        self._waiting: OrderedDict[asyncio.Future[None], None] = OrderedDict()

    async def enter(self, deadline: float | None = None) -> None:
        """Wait for a place; `leave` must follow.

        Raises:
            TooLateError: there was none by the deadline.
        """
        if self._free:
            self._free -= 1
            return
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting[place] = None
        try:
            await by_deadline(place, deadline)
        except asyncio.CancelledError:
            if not place.cancelled() and place.exception() is None:
                self.leave()
            raise
        finally:
            self._waiting.pop(place, None)

    def leave(self) -> None:
        """Make room for the next."""
        while self._waiting:
            place, _ = self._waiting.popitem(last=False)
            if not place.done():
                place.set_result(None)
                return
        self._free += 1

    async def __aenter__(self) -> None:
        await self.enter()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.leave()
