"""A server forgets, at its start and every hour, what is not to be kept any longer."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from orchestai.config import ServingConfig
from orchestai.execution.log import forget_old_logs
from orchestai.serving.store import Database, ParkedRuns
from orchestai.serving.store.retention import forget_runs, forget_settled

logger = logging.getLogger(__name__)
_EVERY_S = 3600.0
_DAY_S = 86_400.0
_SETTLED_DAYS = 7
"""Reservations that were settled are of use to whoever asks where a day's money went."""


@asynccontextmanager
async def forgetting(config: ServingConfig, database: Database, log: Path | None) -> AsyncIterator[None]:
    """Forget while the block lasts; see `forget`."""

    async def again_and_again() -> None:
        while True:
            try:
                await asyncio.to_thread(forget, config, database, log)
            except Exception:
                logger.exception("what is too old was not removed; trying again in an hour")
            await asyncio.sleep(_EVERY_S)

    working = asyncio.ensure_future(again_and_again())
    try:
        yield
    finally:
        working.cancel()
        await asyncio.gather(working, return_exceptions=True)


def forget(config: ServingConfig, database: Database, log: Path | None) -> None:
    """Remove settled reservations of the week before last, parked runs whose clients did not come back in time, and,
    where `log_days` says so, old runs wherever they are.

    Args:
        log: folder of the execution log; None where there is none.
    """
    forget_settled(database, _SETTLED_DAYS * _DAY_S)
    ParkedRuns(database).forget_older(config.parked_s)
    if config.log_days is None:
        return
    forget_runs(database, config.log_days * _DAY_S)
    if log is not None:
        forget_old_logs(log, config.log_days)
