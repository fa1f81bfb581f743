"""Coroutines and blocking work beside whoever asks for them."""

from __future__ import annotations

import asyncio
import math
import os
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path
from typing import Any, TypeVar

from anyio import CapacityLimiter, to_thread

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


_UNLIMITED = CapacityLimiter(math.inf)


async def in_thread(work: Callable[[], Any]) -> Any:
    """What `work` gives, in a thread that nobody waits for once this is cancelled, not even the end of the program."""

    def done() -> Any:
        try:
            return work()
        except Exception:
            raise
        except BaseException as error:  # such as SystemExit, which would end the event loop
            raise RuntimeError(repr(error)) from None

    return await to_thread.run_sync(done, abandon_on_cancel=True, limiter=_UNLIMITED)


_GROUP = Path("/sys/fs/cgroup")


def usable_cores(group: Path = _GROUP) -> int:
    """Those that the process may run on, or fewer where its container's quota is smaller; at least 1.

    Args:
        group: the control group's folder, of version 2 or 1.
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    for files in (["cpu.max"], ["cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us"]):
        with suppress(OSError, ValueError):  # there is no such file, or no quota: "max", or -1
            quota, period = map(int, " ".join((group / file).read_text() for file in files).split())
            if quota > 0:
                cores = min(cores, math.ceil(quota / period))
    return max(cores, 1)
