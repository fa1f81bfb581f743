"""What is forgotten with time: reservations that were settled, and runs that are not to be kept any longer."""

from __future__ import annotations

from sqlalchemy import ColumnElement, Connection, Table, delete, select

from orchestai.serving.store.database import Database
from orchestai.serving.store.tables import feedback, now, reservations, served

_AT_ONCE = 500
"""Rows of one write, so that runs do not wait long for it."""


def forget_settled(database: Database, seconds: float) -> int:
    """Remove reservations that began so long ago and were settled; the sums of their days stay. How many these were."""
    old = reservations.c.spent.is_not(None) & (reservations.c.began_at < now() - seconds)
    return _forget(database, reservations, old)


def forget_runs(database: Database, seconds: float) -> int:
    """Remove runs that began so long ago, with what was said of them. How many these were."""
    return _forget(database, served, served.c.began_at < now() - seconds)


def _forget(database: Database, table: Table, old: ColumnElement[bool]) -> int:
    (key,) = table.primary_key.columns
    forgotten = 0

    def write(connection: Connection) -> int:
        names = connection.scalars(select(key).where(old).limit(_AT_ONCE)).all()
        if names and table is served:
            connection.execute(delete(feedback).where(feedback.c.run_id.in_(names)))
        if names:
            connection.execute(delete(table).where(key.in_(names)))
        return len(names)

    while count := database.write("", write):
        forgotten += count
    return forgotten
