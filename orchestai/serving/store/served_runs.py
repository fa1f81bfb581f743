"""Runs that were served: whose they are, their plans and receipts; and what became of those whose server died."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import Connection, select

from orchestai.errors import UserError
from orchestai.serving.store.database import Database
from orchestai.serving.store.statements import insert_new, insert_or_change
from orchestai.serving.store.tables import now, served, servers


@dataclass(frozen=True)
class ServedRun:
    """Attributes:
    status: `running`; `done` with a receipt; `lost` where its server died before it ended.
    """

    run_id: str
    key: str
    status: Literal["running", "done", "lost"]
    plan: dict[str, Any] | None
    receipt: dict[str, Any] | None


class ServedRuns:
    """Of all servers; each run belongs to the key that asked for it, `NO_KEY` where nobody had to sign."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def begin(self, run_id: str, key: str) -> None:
        """Note that a run has begun, so that it is not lost without a trace if this server is killed.

        Raises:
            UserError: there is one of this id.
        """

        def write(connection: Connection) -> None:
            row = {"run_id": run_id, "key": key, "server": self._database.server or ""}
            if not insert_new(connection, served, row, began_at=now()):
                owner = connection.scalar(select(served.c.key).where(served.c.run_id == run_id))
                if owner != key:
                    raise UserError(f"{run_id}: there is a run of this id; take another")

        self._database.write(key, write)

    def put(self, run_id: str, key: str, plan: dict[str, Any] | None, receipt: dict[str, Any]) -> None:
        """Keep what a run gave, whether or not its beginning was noted."""
        row = {"run_id": run_id, "key": key, "server": self._database.server or "", "began_at": now()}
        gave = {"plan": plan, "receipt": receipt}
        self._database.write(key, lambda connection: insert_or_change(connection, served, row | gave, gave))

    def get(self, run_id: str, key: str) -> ServedRun | None:
        """A run of this key; None where it has none of this id."""
        joined = served.outerjoin(servers, (servers.c.id == served.c.server) & (servers.c.alive_until >= now()))
        statement = select(served, servers.c.id.label("alive")).select_from(joined)
        with self._database.reading() as connection:
            row = connection.execute(statement.where(served.c.run_id == run_id, served.c.key == key)).one_or_none()
        if row is None:
            return None
        status: Literal["running", "done", "lost"] = "running" if row.alive else "lost"
        if row.receipt is not None:
            status = "done"
        return ServedRun(row.run_id, row.key, status, row.plan, row.receipt)
