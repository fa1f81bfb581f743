"""Runs that were served: whose they are, their plans and receipts; and what became of those whose server died."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Any, Literal

from sqlalchemy import ColumnElement, Connection, Table, bindparam, delete, or_, select, update

from orchestai.errors import UserError
from orchestai.serving.store.database import Database
from orchestai.serving.store.tables import (
    feedback,
    insert_new,
    insert_or_change,
    now,
    parked,
    reservations,
    served,
    servers,
)

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


class ParkedRuns:
    """By id, each of the key that asked for it. A run is taken, resumed, and then put again or dropped; where its
    server dies in between, another may take it."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def put(self, park_id: str, key: str, state: dict[str, Any]) -> Future[None]:
        """Keep a state; does not wait."""
        row = {"id": park_id, "key": key, "state": state, "parked_at": now(), "taken_by": None}
        changes = {"state": state, "parked_at": now(), "taken_by": None}
        return self._database.persist(key, lambda connection: insert_or_change(connection, parked, row, changes))

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

    def drop(self, park_id: str, key: str) -> Future[Any]:
        """Forget a run that was resumed to its end; does not wait."""
        statement = delete(parked).where(parked.c.id == park_id, parked.c.key == key)
        return self._database.persist(key, lambda connection: connection.execute(statement))

    def forget_older(self, seconds: float) -> int:
        """Forget runs whose clients did not come back; how many these were."""
        statement = delete(parked).where(parked.c.parked_at < now() - seconds)
        return self._database.write("", lambda connection: connection.execute(statement).rowcount)


@dataclass(frozen=True)
class Feedback:
    """Of one run; what was not said is None.

    Attributes:
        score: from 0, wrong, to 1, right.
        answer: the right one.
        tests: Python code that passes if a program is right.
    """

    score: float | None = None
    answer: str | None = None
    tests: str | None = None

    def __post_init__(self) -> None:
        if self.score is None and self.answer is None and self.tests is None:
            raise UserError("feedback says nothing: give a score, the right answer, or tests")
        if self.score is not None and not 0 <= self.score <= 1:
            raise UserError(f"score={self.score}: a score lies between 0, wrong, and 1, right")


class FeedbackStore:
    def __init__(self, database: Database) -> None:
        self._database = database

    def put(self, run_id: str, key: str, given: Feedback) -> None:
        """Keep feedback, in place of what was said of this run before."""
        said = {"score": given.score, "answer": given.answer, "tests": given.tests, "given_at": now()}

        def write(connection: Connection) -> None:
            runs = select(served.c.run_id).where(served.c.run_id == run_id, served.c.key == key)
            if connection.scalar(runs) is None:
                raise UserError(f"{run_id}: no such run of this key")
            insert_or_change(connection, feedback, {"run_id": run_id, "key": key, **said}, said)

        self._database.write(key, write)

    def all(self) -> Iterator[tuple[str, Feedback]]:
        """Run ids with what was said of them, in the order in which it was said."""
        with self._database.reading() as connection:
            for row in connection.execute(select(feedback).order_by(feedback.c.given_at, feedback.c.run_id)):
                yield row.run_id, Feedback(row.score, row.answer, row.tests)


def all_feedback(url: str) -> dict[str, Feedback]:
    """What was said, by run id; nothing where no server has made the database."""
    if not Database.is_made(url):
        return {}
    with Database.open(url) as database:
        return dict(FeedbackStore(database).all())


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

    def begin(self, run_id: str, key: str) -> Future[None]:
        """Note that a run has begun, so that it is not lost without a trace if this server is killed; does not wait.

        It is there before whatever the run reserves of its key's money. The future raises `UserError` where there is a
        run of this id.
        """

        def write(connection: Connection) -> None:
            row = {"run_id": run_id, "key": key, "server": self._database.server or ""}
            if not insert_new(connection, served, row, began_at=now()):
                owner = connection.scalar(select(served.c.key).where(served.c.run_id == run_id))
                if owner != key:
                    raise UserError(f"{run_id}: there is a run of this id; take another")

        return self._database.submit(key, write, is_awaited=False)

    def put(self, run_id: str, key: str, plan: dict[str, Any] | None, receipt: dict[str, Any]) -> Future[None]:
        """Keep what a run gave, whether or not its beginning was noted; does not wait."""
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
