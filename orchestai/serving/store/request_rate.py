"""Requests per minute of a key, over all servers."""

from __future__ import annotations

from sqlalchemy import Connection, delete, func, select

from orchestai.serving.store.database import Database
from orchestai.serving.store.statements import insert_or_change
from orchestai.serving.store.tables import keys, now, requests

_WINDOW_S = 60


class TooManyRequestsError(Exception):
    """A key's minute is full.

    Attributes:
        retry_after_s: when there is room again.
    """

    def __init__(self, retry_after_s: float) -> None:
        super().__init__(f"too many requests in a minute; try again in {retry_after_s:.0f} s")
        self.retry_after_s = retry_after_s


class RequestRate:
    """Counts requests by the second, so that in no 60 seconds there are more than a key may make."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def take(self, key: str, per_minute: int | None) -> None:
        """Count one request; blocks.

        Raises:
            TooManyRequestsError: there were as many as there may be.
        """
        if per_minute is None:
            return
        wait_s = self._database.write(f"{key}\0requests", lambda connection: _take(connection, key, per_minute))
        if wait_s:
            raise TooManyRequestsError(wait_s)


def _take(connection: Connection, key: str, per_minute: int) -> float:
    """Count a request, or give the seconds until there is room."""
    connection.execute(select(keys.c.name).where(keys.c.name == key).with_for_update(key_share=True))
    at = connection.scalar(select(now())) or 0.0
    second = int(at)
    mine = requests.c.key == key
    connection.execute(delete(requests).where(mine, requests.c.second < second - _WINDOW_S))
    count, oldest = connection.execute(
        select(func.coalesce(func.sum(requests.c.requests), 0), func.min(requests.c.second)).where(mine)
    ).one()
    if count >= per_minute:
        return max(1.0, float(oldest + _WINDOW_S + 1) - at)
    row = {"key": key, "second": second, "requests": 1}
    insert_or_change(connection, requests, row, {"requests": requests.c.requests + 1})
    return 0.0
