"""A run whose events are read one by one while it goes on."""

from __future__ import annotations

import asyncio
from contextlib import ExitStack

from orchestai.answering import Event, RunResult
from orchestai.serving.api.caller import Caller
from orchestai.serving.api.requests.asked import Asked
from orchestai.serving.api.service import Service


class RunningRequest:
    """Begins when it is made, and holds its place until it is closed.

    Raises:
        ApiError: there is no place.
    """

    def __init__(self, service: Service, asked: Asked, caller: Caller) -> None:
        self._place = ExitStack()
        self._place.enter_context(service.place())
        self._events: asyncio.Queue[Event | None] = asyncio.Queue()
        self._running = asyncio.ensure_future(service.run(asked, caller, self._events.put_nowait))
        self._running.add_done_callback(lambda done: self._events.put_nowait(None))

    async def next(self, within_s: float) -> Event | None:
        """The next event; None where nothing happened in this time, or the run has ended.

        Without `asyncio.wait_for`, which before Python 3.12 may swallow a cancellation.
        """
        silence = asyncio.get_running_loop().call_later(within_s, self._events.put_nowait, None)
        try:
            return await self._events.get()
        finally:
            silence.cancel()

    @property
    def has_ended(self) -> bool:
        """Whether there is a result and all events were read."""
        return self._running.done() and self._events.empty()

    def result(self) -> RunResult:
        """What the run gave, once it has ended; raises what it raised."""
        return self._running.result()

    async def close(self) -> None:
        """Cancel what still runs, wait until it is settled, and give the place back."""
        self._running.cancel()
        try:
            await asyncio.gather(self._running, return_exceptions=True)
        finally:
            self._place.close()
