"""Runs that were served: whose they are, their plans and receipts; and what became of those whose server died."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import Connection, bindparam, select, update

from orchestai.errors import UserError
from orchestai.serving.store.database import Database
from orchestai.serving.store.statements import insert_new
from orchestai.serving.store.tables import now, served, servers

_END = (
    update(served)
    .where(served.c.run_id == bindparam("its_run"), served.c.key == bindparam("its_key"))
    .values(plan=bindparam("plan"), receipt=bindparam("receipt"))
)


@dataclass(frozen=True)
class ServedRun:
    """One run.

    Attributes:
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
        """Note that a run has begun, so that it is not lost without a trace if this server is killed; blocks.

        Raises:
            UserError: there is one of this id.
        """
        self.begin_soon(run_id, key).result()

    def begin_soon(self, run_id: str, key: str) -> Future[None]:
        """The same without waiting; it is there before whatever the run reserves of its key's money."""

        def write(connection: Connection) -> None:
            row = {"run_id": run_id, "key": key, "server": self._database.server or ""}
            if not insert_new(connection, served, row, began_at=now()):
                owner = connection.scalar(select(served.c.key).where(served.c.run_id == run_id))
                if owner != key:
                    raise UserError(f"{run_id}: there is a run of this id; take another")

        return self._database.submit(key, write, is_awaited=False)

    def put(self, run_id: str, key: str, plan: dict[str, Any] | None, receipt: dict[str, Any]) -> None:
        """Keep what a run gave, whether or not its beginning was noted; blocks."""
        self.put_soon(run_id, key, plan, receipt).result()

    def put_soon(self, run_id: str, key: str, plan: dict[str, Any] | None, receipt: dict[str, Any]) -> Future[None]:
        """The same without waiting."""
        row = {"run_id": run_id, "key": key, "server": self._database.server or ""}
        gave = {"plan": plan, "receipt": receipt}

        def write(connection: Connection) -> None:
            ended = {"its_run": run_id, "its_key": key, **gave}
            if not connection.execute(_END, ended).rowcount:
                insert_new(connection, served, row | gave, began_at=now())

        return self._database.persist(key, write)

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
