"""The database that servers share: SQLite for those of one machine, PostgreSQL for those of several."""

from __future__ import annotations

import logging
import os
import queue
import socket
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Generic, TypeVar

from sqlalchemy import (
    URL,
    ColumnElement,
    Connection,
    Engine,
    create_engine,
    delete,
    event,
    insert,
    make_url,
    select,
    text,
    update,
)
from sqlalchemy.exc import ArgumentError, InterfaceError, NoSuchModuleError, OperationalError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from orchestai.errors import UserError
from orchestai.execution.contract.ledger import InsufficientFundsError
from orchestai.installed import needed_for
from orchestai.serving.store.key_days import close
from orchestai.serving.store.tables import SCHEMA_VERSION, metadata, now, parked, reservations, schema, servers

_TOGETHER = 256
_TRIES = 3
_PATIENCE_S = 0.01

T = TypeVar("T")


@dataclass(frozen=True)
class _Write(Generic[T]):
    account: str
    work: Callable[[Connection], T]
    is_awaited: bool = True
    future: Future[T] = field(default_factory=Future)


class Writer:
    """A thread that writes to a database.

    A write may be done twice, where a connection broke while it was committed: the second time must change nothing. One
    that refuses (`UserError`, `InsufficientFundsError`) must do so before its first change.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine.execution_options(writes=True)
        self._connection: Connection | None = None
        self._waiting: queue.SimpleQueue[_Write[Any] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._write_until_closed, name="database writer", daemon=True)
        self._closing = threading.Lock()
        self._closed = False
        self._thread.start()

    def submit(self, account: str, work: Callable[[Connection], T], *, is_awaited: bool = True) -> Future[T]:
        """Have something written after all that was submitted before for this account.

        Args:
            account: a key's name; writes of others may be done in another order.
            is_awaited: False lets it wait some milliseconds for others, to be written with them.

        Returns:
            What it gives, or raises, once it is committed.
        """
        write = _Write(account, work, is_awaited)
        with self._closing:
            if self._closed:
                raise RuntimeError("this database was closed")
            self._waiting.put(write)
        return write.future

    def close(self) -> None:
        """Write what was submitted, and end."""
        with self._closing:
            if not self._closed:
                self._closed = True
                self._waiting.put(None)
        self._thread.join()

    def _write_until_closed(self) -> None:
        while (first := self._waiting.get()) is not None:
            together, ends = [first], False
            until = time.monotonic() + _PATIENCE_S
            while len(together) < _TOGETHER and not ends:
                patience_s = 0.0 if together[-1].is_awaited else until - time.monotonic()
                try:
                    write = self._waiting.get(timeout=max(patience_s, 0.0))
                except queue.Empty:
                    break
                if write is None:
                    ends = True
                else:
                    together.append(write)
            together.sort(key=lambda write: write.account)  # two servers that lock rows in one order never deadlock
            self._commit(together)
            if ends:
                break
        self._disconnect()

    def _commit(self, together: list[_Write[Any]]) -> None:
        try:
            outcomes = self._attempt(together)
        except BaseException as error:
            if len(together) == 1:
                together[0].future.set_exception(error)
                return
            for write in together:
                self._commit([write])
            return
        for write, (value, refusal) in zip(together, outcomes, strict=True):
            if refusal is None:
                write.future.set_result(value)
            else:
                write.future.set_exception(refusal)

    def _attempt(self, together: list[_Write[Any]]) -> list[tuple[Any, Exception | None]]:
        for left in reversed(range(_TRIES)):
            try:
                if self._connection is None:
                    self._connection = self._engine.connect()
                with self._connection.begin():
                    return [_outcome(write, self._connection) for write in together]
            except OperationalError:  # a deadlock, a lock that was waited for in vain, a connection that broke
                self._disconnect()
                if not left:
                    raise
        raise AssertionError

    def _disconnect(self) -> None:
        """Give the connection up, which is kept between writes, since looking after it takes as long as a write."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def _outcome(write: _Write[Any], connection: Connection) -> tuple[Any, Exception | None]:
    try:
        return write.work(connection), None
    except (InsufficientFundsError, UserError) as error:
        return None, error


logger = logging.getLogger(__name__)
_RENEWALS = 3
"""Per lease: so often may one fail that the server is still taken for alive."""


class Lease:
    """Of one server, renewed by a thread until it is closed; the thread also settles what dead servers have left.

    Args:
        seconds: after the last renewal, when others take this server for dead. One that was only slow is refused from
            then on whatever it wants to spend on runs that it has begun.

    Attributes:
        server: its id, which no other process has.
    """

    def __init__(self, write: Callable[[str, Callable[[Connection], Any]], Any], seconds: float) -> None:
        self.server = uuid.uuid4().hex
        self._write = write
        self._seconds = seconds
        self._closing = threading.Event()
        write("", self._begin)
        self._thread = threading.Thread(target=self._renew_until_closed, name="lease", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End it; reservations that are still open expire at once."""
        self._closing.set()
        self._thread.join()
        self._write("", self._end)

    def _renew_until_closed(self) -> None:
        while not self._closing.wait(self._seconds / _RENEWALS):
            try:
                self._write("", self._renew)
                self._write("", expire_of_dead)
            except Exception:
                logger.exception("the lease of this server was not renewed; trying again")

    def _begin(self, connection: Connection) -> None:
        name = f"{socket.gethostname()}:{os.getpid()}"
        connection.execute(insert(servers).values(id=self.server, name=name, alive_until=now() + self._seconds))

    def _renew(self, connection: Connection) -> None:
        alive = servers.update().where(servers.c.id == self.server).values(alive_until=now() + self._seconds)
        if not connection.execute(alive).rowcount:  # taken for dead: what it had is settled, and it begins anew
            self._begin(connection)

    def _end(self, connection: Connection) -> None:
        connection.execute(delete(servers).where(servers.c.id == self.server))
        _expire(connection, reservations.c.server == self.server)


def expire_of_dead(connection: Connection) -> None:
    """Settle what servers have reserved whose lease is over, and free what they were resuming."""
    alive = select(servers.c.id).where(servers.c.alive_until >= now())
    connection.execute(delete(servers).where(servers.c.id.not_in(alive)))
    _expire(connection, reservations.c.server.not_in(alive))
    connection.execute(update(parked).where(parked.c.taken_by.not_in(alive)).values(taken_by=None))


def _expire(connection: Connection, condition: ColumnElement[bool]) -> None:
    """Settle open reservations: what they had committed may have been billed, and counts as spent."""
    open_ones = select(reservations).where(condition, reservations.c.spent.is_(None))
    for row in connection.execute(open_ones.order_by(reservations.c.key, reservations.c.id).with_for_update()).all():
        close(connection, row, row.committed, expired=True)


UNREACHABLE = (OperationalError, InterfaceError, PoolTimeoutError)
"""What is raised where the database does not answer."""
_AGAIN_S = 2.0
_BUSY_MS = 30_000
"""How long SQLite waits for another process that writes."""
_IMPATIENT = {"connect_timeout": 5, "tcp_user_timeout": 10_000}
"""Of PostgreSQL's client: seconds to connect, and milliseconds until a line that says nothing counts as lost."""
_NO_ADDRESS = (
    "serving.database: not the address of a database; write sqlite:///PATH or "
    "postgresql+psycopg://USER:PASSWORD@HOST/NAME"
)
_SCHEMA_LOCK = 0x6F726368
"""Of PostgreSQL's advisory locks, that of whoever makes the tables."""


class Database:
    """Tables, one thread that writes, and the lease of this server, if it is one.

    Attributes:
        server: under which reservations are made; None where this process only looks and changes keys.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        of_one_state = {"isolation_level": "REPEATABLE READ"} if engine.dialect.name == "postgresql" else {}
        self._reading = engine.execution_options(**of_one_state)
        self._writer = Writer(engine)
        self._lease: Lease | None = None

    @classmethod
    def open(cls, url: str, *, lease_s: float | None = None) -> Database:
        """Open a database and make its tables where there are none.

        Args:
            url: `sqlite:///PATH` or `postgresql+psycopg://USER:PASSWORD@HOST/NAME`.
            lease_s: of a server: so many seconds after it was killed its reservations expire. None for others.
        """
        engine = _engine(url)
        shown = engine.url.render_as_string(hide_password=True)
        try:
            with engine.execution_options(writes=True).begin() as connection:
                if connection.dialect.name == "postgresql":
                    connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _SCHEMA_LOCK})
                schema.create(connection, checkfirst=True)
                version = connection.scalar(select(schema.c.version))
                if version is None:
                    metadata.create_all(connection)
                    connection.execute(insert(schema).values(version=SCHEMA_VERSION))
                elif version != SCHEMA_VERSION:
                    raise UserError(
                        f"{shown}: its tables are of version {version}, those of this program of {SCHEMA_VERSION}; use "
                        "the version of orchestai that made them, or another serving.database"
                    )
        except SQLAlchemyError as error:
            engine.dispose()
            raise UserError(f"{shown}: cannot be opened: {_reason(error)}; check serving.database") from None
        except UserError:
            engine.dispose()
            raise
        database = cls(engine)
        if lease_s is not None:
            database._lease = Lease(database.write, lease_s)
        return database

    @staticmethod
    def is_made(url: str) -> bool:
        """Whether it may hold something: the file of SQLite may be absent, and opening it would make it."""
        parsed = _engine_url(url)
        return parsed.get_backend_name() != "sqlite" or Path(parsed.database or "").is_file()

    @property
    def server(self) -> str | None:
        return None if self._lease is None else self._lease.server

    @contextmanager
    def reading(self) -> Iterator[Connection]:
        """A connection that sees one state of the database."""
        with self._reading.connect() as connection:
            yield connection

    def write(self, account: str, work: Callable[[Connection], T]) -> T:
        """Have something written, and wait until it is committed; see `Writer` for what `work` may do."""
        return self.submit(account, work).result()

    def submit(self, account: str, work: Callable[[Connection], T], *, is_awaited: bool = True) -> Future[T]:
        return self._writer.submit(account, work, is_awaited=is_awaited)

    def persist(self, account: str, work: Callable[[Connection], T]) -> Future[T]:
        """`submit` what must be written in the end: where the database does not answer, it is tried again later.

        Returns:
            How the first try ended.
        """

        def again() -> None:
            with suppress(RuntimeError):  # closed meanwhile
                self.persist(account, work)

        def try_again(ended: Future[T]) -> None:
            if isinstance(ended.exception(), UNREACHABLE):
                timer = threading.Timer(_AGAIN_S, again)
                timer.daemon = True
                timer.start()

        first = self.submit(account, work)
        first.add_done_callback(try_again)
        return first

    def close(self) -> None:
        """End this server's lease, write what is waiting, and close."""
        if self._lease is not None:
            self._lease.close()
        self._writer.close()
        self._engine.dispose()

    def __enter__(self) -> Database:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _engine_url(url: str) -> URL:
    try:
        return make_url(url)
    except ArgumentError:
        raise UserError(_NO_ADDRESS) from None


def _engine(url: str) -> Engine:
    parsed = _engine_url(url)
    try:
        if parsed.get_backend_name() == "sqlite":
            return _sqlite(parsed)
        if parsed.get_backend_name() == "postgresql":
            with needed_for("serving.database"):
                return create_engine(
                    parsed.set(drivername="postgresql+psycopg"),
                    pool_pre_ping=True,
                    hide_parameters=True,
                    connect_args=_IMPATIENT,
                )
    except NoSuchModuleError:
        raise UserError(_NO_ADDRESS) from None
    raise UserError(f"serving.database: {parsed.get_backend_name()} is not supported; take sqlite or postgresql")


def _sqlite(url: URL) -> Engine:
    if not url.database or url.database == ":memory:":
        raise UserError("serving.database: SQLite in memory forgets what was spent; write sqlite:///PATH")
    try:
        Path(url.database).parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{url.database}: cannot write: {error.strerror}; choose another serving.database") from None
    engine = create_engine(url, hide_parameters=True)

    @event.listens_for(engine, "connect")
    def prepare(connection: Any, record: Any) -> None:
        connection.isolation_level = None  # else the driver begins transactions when it thinks fit
        connection.execute(f"PRAGMA busy_timeout = {_BUSY_MS}")
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = NORMAL")

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        writes = connection.get_execution_options().get("writes")
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    return engine


def _reason(error: SQLAlchemyError) -> str:
    cause = getattr(error, "orig", None) or error
    return str(cause).strip().splitlines()[0]
