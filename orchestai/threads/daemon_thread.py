"""Runs what blocks beside the event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any


async def in_thread(work: Callable[[], Any]) -> Any:
    """What `work` gives, in a thread that nobody waits for once this is cancelled, not even the end of the program."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()

    def settle(result: Any, error: BaseException | None) -> None:
        if not future.done():
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)

    def run() -> None:
        result: Any = None
        error: BaseException | None = None
        try:
            result = work()
        except (StopIteration, StopAsyncIteration) as raised:  # which no future takes
            error = RuntimeError(repr(raised))
        except Exception as raised:
            error = raised
        except BaseException as raised:  # such as SystemExit, which a future would pass on to the event loop
            error = RuntimeError(repr(raised))
        if not loop.is_closed():
            loop.call_soon_threadsafe(settle, result, error)

    threading.Thread(target=run, name="daemon", daemon=True).start()
    return await future
