"""An event loop in a thread of its own, for callers that have none, or whose own must not be waited for in."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

T = TypeVar("T")
_TO_STOP_S = 1.0


class BackgroundLoop:
    """Runs coroutines in one loop until it is closed."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="orchestai", daemon=True)
        self._thread.start()

    def start(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        """What the coroutine will return or raise; to cancel it cancels the coroutine."""
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        """What the coroutine returns or raises; an interrupt cancels it, and waits a moment for it to end."""
        ended = threading.Event()
        future = self.start(_telling(ended, work))
        try:
            return future.result()
        except BaseException:
            if future.cancel():
                ended.wait(_TO_STOP_S)
            raise

    def close(self) -> None:
        """Cancel what still runs, and end the thread; what does not stop is left behind with the loop."""
        asyncio.run_coroutine_threadsafe(_cancel_others(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        if not asyncio.all_tasks(self._loop):
            self._loop.close()


async def _telling(ended: threading.Event, work: Coroutine[Any, Any, T]) -> T:
    try:
        return await work
    finally:
        ended.set()


async def _cancel_others() -> None:
    others = asyncio.all_tasks() - {asyncio.current_task()}
    for task in others:
        task.cancel()
    if others:
        await asyncio.wait(others, timeout=_TO_STOP_S)
