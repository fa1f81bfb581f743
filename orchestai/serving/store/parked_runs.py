"""Workflows that wait for what a client's own tool gives; they outlive the server that parked them."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

from sqlalchemy import Connection, delete, or_, select, update

from orchestai.serving.store.database import Database
from orchestai.serving.store.statements import insert_or_change
from orchestai.serving.store.tables import now, parked


class ParkedRuns:
    """By id, each of the key that asked for it. A run is taken, resumed, and then put again or dropped; where its
    server dies in between, another may take it."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def put(self, park_id: str, key: str, state: dict[str, Any]) -> None:
        """Park a run, or park it again in another state; blocks."""
        self.put_soon(park_id, key, state).result()

    def put_soon(self, park_id: str, key: str, state: dict[str, Any]) -> Future[None]:
        """The same without waiting."""
        row = {"id": park_id, "key": key, "state": state, "parked_at": now(), "taken_by": None}
        changes = {"state": state, "parked_at": now(), "taken_by": None}
        return self._database.persist(key, lambda connection: insert_or_change(connection, parked, row, changes))

    def get(self, park_id: str, key: str) -> dict[str, Any] | None:
        """The state of a parked run; None where this key has none of this id."""
        with self._database.reading() as connection:
            statement = select(parked.c.state).where(parked.c.id == park_id, parked.c.key == key)
            return connection.scalar(statement)

    def take(self, park_id: str, key: str, within_s: float) -> Future[dict[str, Any] | None]:
        """The state of a run that was parked in the last `within_s` and that nobody else resumes now, else None.

        `drop`, `put` or `give_back` follows where there is one.
        """
        server = self._database.server or ""

        def write(connection: Connection) -> dict[str, Any] | None:
            free = or_(parked.c.taken_by.is_(None), parked.c.taken_by == "") & (parked.c.parked_at >= now() - within_s)
            statement = update(parked).where(parked.c.id == park_id, parked.c.key == key, free)
            return connection.scalar(statement.values(taken_by=server).returning(parked.c.state))

        return self._database.submit(key, write)

    def give_back(self, park_id: str, key: str) -> None:
        """Let a run that was taken be taken again; does not wait."""
        statement = update(parked).where(parked.c.id == park_id, parked.c.key == key).values(taken_by=None)
        self._database.submit(key, lambda connection: connection.execute(statement))

    def drop(self, park_id: str, key: str) -> None:
        """Forget a run that was resumed to its end; blocks."""
        self.drop_soon(park_id, key).result()

    def drop_soon(self, park_id: str, key: str) -> Future[Any]:
        """The same without waiting."""
        statement = delete(parked).where(parked.c.id == park_id, parked.c.key == key)
        return self._database.persist(key, lambda connection: connection.execute(statement))

    def forget_older(self, seconds: float) -> int:
        """Forget runs whose clients did not come back; how many these were."""
        statement = delete(parked).where(parked.c.parked_at < now() - seconds)
        return self._database.write("", lambda connection: connection.execute(statement).rowcount)
