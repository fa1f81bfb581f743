"""Lines of runs on their way to the execution log: those that wait are written together, and flushed soon after."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from orchestai.execution.log import ExecutionLog
from orchestai.execution.record import ExecutionRecord

_FLUSH_S = 1.0


class LogQueue:
    """Appends to a log beside the event loop.

    A line that was appended outlives the process; within a second it is on the disk, and outlives the machine.
    """

    def __init__(self, log: ExecutionLog) -> None:
        self._log = log
        self._waiting: list[tuple[ExecutionRecord, asyncio.Future[None]]] = []
        self._writing: asyncio.Task[None] | None = None
        self._flushing: asyncio.Task[None] | None = None

    async def append(self, record: ExecutionRecord) -> None:
        """Append a line. Whoever is cancelled while it waits does not undo it.

        Raises:
            UserError: it could not be written.
        """
        written: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((record, written))
        if self._writing is None:
            self._writing = asyncio.ensure_future(self._write())
        await asyncio.shield(written)

    async def close(self) -> None:
        """Write what waits, and flush."""
        if self._writing is not None:
            await self._writing
        if self._flushing is not None:
            self._flushing.cancel()
            await asyncio.gather(self._flushing, return_exceptions=True)
            await asyncio.to_thread(self._log.flush)

    async def _write(self) -> None:
        """Write until nothing waits."""
        while self._waiting:
            together, self._waiting = self._waiting, []
            outcomes = await asyncio.to_thread(self._append, [record for record, _ in together])
            for (_, written), error in zip(together, outcomes, strict=True):
                if not written.done():
                    written.set_result(None) if error is None else written.set_exception(error)
            if self._flushing is None:
                self._flushing = asyncio.ensure_future(self._flush())
        self._writing = None

    def _append(self, records: Sequence[ExecutionRecord]) -> list[Exception | None]:
        """Write records together; where that fails each alone, so that it fails only for those whose fault it is."""
        try:
            self._log.append(*records, flush=False)
            return [None] * len(records)
        except Exception as error:
            return [error] if len(records) == 1 else [outcome for each in records for outcome in self._append([each])]

    async def _flush(self) -> None:
        await asyncio.sleep(_FLUSH_S)
        self._flushing = None
        await asyncio.to_thread(self._log.flush)
