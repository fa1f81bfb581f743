"""Server-sent events of a run: as they happen, with comments in between, until it ends or the client leaves."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import ExitStack
from typing import Any, Protocol

from pydantic_core import to_json
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from orchestai.answering import Event, RunResult
from orchestai.serving.api.caller import Caller
from orchestai.serving.api.errors import LEFT, ApiError, error_of, left
from orchestai.serving.api.requests.common import Asked
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


_KEEP_ALIVE = b": keep-alive\n\n"
KEEP_ALIVE_S = 10.0
"""A stream in which nothing else happened for so long gets a comment, so that nobody takes it for dead."""
_UNREAD_S = 60.0
"""How long a client may leave what was sent unread."""


class Rendering(Protocol):
    """Events of runs in one of OpenAI's formats; each method gives the server-sent events to send."""

    def opening(self) -> Iterable[bytes]: ...

    def event(self, event: Event) -> Iterable[bytes]: ...

    def ending(self, result: RunResult) -> Iterable[bytes]: ...

    def failure(self, error: ApiError) -> Iterable[bytes]: ...


def server_sent(data: Any, event: str = "") -> bytes:
    """One server-sent event."""
    named = f"event: {event}\n".encode() if event else b""
    return named + b"data: " + to_json(data, inf_nan_mode="null") + b"\n\n"


async def open_stream(service: Service, asked: Asked, caller: Caller, rendering: Rendering) -> Response:
    """The reply to a request for a stream, once its run has a plan; a run that is refused before raises.

    So the status of a refusal is that of a reply without a stream. A plan that takes long is waited for in the stream.
    """
    running = RunningRequest(service, asked, caller)
    try:
        first = await running.next(KEEP_ALIVE_S)
        if first is None and running.has_ended:
            running.result()
    except BaseException:
        await running.close()
        raise
    return EventStream(asked.run_id, running, first, rendering)


class EventStream(Response):
    """Sends what happens in a run; whichever way it ends, the run is closed.

    Attributes:
        status_code: `LEFT` once the client has left.
    """

    def __init__(self, run_id: str, running: RunningRequest, first: Event | None, rendering: Rendering) -> None:
        super().__init__(
            headers={
                "content-type": "text/event-stream; charset=utf-8",
                "cache-control": "no-cache",
                "x-orchestai-run-id": run_id,
            },
        )
        del self.headers["content-length"]
        self._running = running
        self._first = first
        self._rendering = rendering

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        sending = asyncio.ensure_future(self._send(send))
        leaving = asyncio.ensure_future(left(receive))
        try:
            await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
            if not sending.done():
                self.status_code = LEFT
        finally:
            for each in (sending, leaving):
                each.cancel()
            await asyncio.gather(sending, leaving, return_exceptions=True)
            await self._running.close()

    async def _send(self, send: Send) -> None:
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        loop, sending = asyncio.get_running_loop(), asyncio.current_task()
        assert sending is not None
        async for piece in self._pieces():
            unread = loop.call_later(_UNREAD_S, sending.cancel)
            await send({"type": "http.response.body", "body": piece, "more_body": True})
            unread.cancel()
        await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _pieces(self) -> AsyncIterator[bytes]:
        for piece in self._rendering.opening():
            yield piece
        event = self._first
        try:
            while True:
                if event is not None:
                    yield b"".join(self._rendering.event(event))
                event = await self._running.next(KEEP_ALIVE_S)
                if event is None and self._running.has_ended:
                    yield b"".join(self._rendering.ending(self._running.result()))
                    return
                if event is None:
                    yield _KEEP_ALIVE
        except Exception as error:
            yield b"".join(self._rendering.failure(error_of(error)))
