"""The database that servers share: SQLite for those of one machine, PostgreSQL for those of several."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, TypeVar

from sqlalchemy import URL, Connection, Engine, create_engine, event, insert, make_url, select, text
from sqlalchemy.exc import ArgumentError, InterfaceError, NoSuchModuleError, OperationalError, SQLAlchemyError
from sqlalchemy.exc import TimeoutError as PoolTimeoutError

from orchestai.errors import UserError
from orchestai.extras import needed_for
from orchestai.serving.store.leases import Lease
from orchestai.serving.store.tables import SCHEMA_VERSION, metadata, schema
from orchestai.serving.store.writer import Writer

T = TypeVar("T")
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

        Raises:
            UserError: it cannot be opened, or was written by another version.
        """
        engine = _engine(url)
        shown = engine.url.render_as_string(hide_password=True)
        try:
            with engine.execution_options(writes=True).begin() as connection:
                _make_tables(connection, shown)
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
        """Whether it may hold something: the file of SQLite may be absent, and opening it would make it.

        Raises:
            UserError: not the address of a database.
        """
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
        first = self.submit(account, work)
        first.add_done_callback(lambda ended: self._try_again(account, work, ended))
        return first

    def _try_again(self, account: str, work: Callable[[Connection], T], ended: Future[T]) -> None:
        if not isinstance(ended.exception(), UNREACHABLE):
            return

        def again() -> None:
            with suppress(RuntimeError):  # closed meanwhile
                self.persist(account, work)

        timer = threading.Timer(_AGAIN_S, again)
        timer.daemon = True
        timer.start()

    async def write_soon(self, account: str, work: Callable[[Connection], T]) -> T:
        """The same in an event loop; whoever is cancelled while it waits does not undo it."""
        return await asyncio.shield(asyncio.wrap_future(self.submit(account, work)))

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


def _make_tables(connection: Connection, shown: str) -> None:
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": _SCHEMA_LOCK})
    schema.create(connection, checkfirst=True)
    version = connection.scalar(select(schema.c.version))
    if version is None:
        metadata.create_all(connection)
        connection.execute(insert(schema).values(version=SCHEMA_VERSION))
    elif version != SCHEMA_VERSION:
        raise UserError(
            f"{shown}: its tables are of version {version}, this program's of version {SCHEMA_VERSION}; use the "
            "version of orchestai that made them, or another serving.database"
        )


def _reason(error: SQLAlchemyError) -> str:
    cause = getattr(error, "orig", None) or error
    return str(cause).strip().splitlines()[0]
