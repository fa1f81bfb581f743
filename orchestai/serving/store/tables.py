"""The tables that servers share. Money is in the unit of `pico`, time in seconds since 1970 by the database's clock."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from sqlalchemy import (
    JSON,
    BigInteger,
    Boolean,
    Column,
    Connection,
    Float,
    ForeignKey,
    Index,
    Integer,
    MetaData,
    String,
    Table,
    Text,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.ext.compiler import compiles
from sqlalchemy.sql.functions import FunctionElement


def insert_new(connection: Connection, table: Table, row: dict[str, Any], **computed: Any) -> bool:
    """Insert a row unless there is one with its primary key; whether there was none.

    Args:
        computed: columns that the database computes.
    """
    statement = _insert(connection.dialect.name, table, *computed.items())
    return connection.execute(statement, row).one_or_none() is not None


def insert_or_change(connection: Connection, table: Table, row: dict[str, Any], changes: dict[str, Any]) -> None:
    """Insert a row, or apply changes to the one with its primary key."""
    statement = (postgresql if connection.dialect.name == "postgresql" else sqlite).insert(table).values(row)
    keys = list(table.primary_key.columns)
    connection.execute(statement.on_conflict_do_update(index_elements=keys, set_=changes))


@lru_cache
def _insert(dialect: str, table: Table, *computed: tuple[str, Any]) -> Any:
    statement = (postgresql if dialect == "postgresql" else sqlite).insert(table).values(**dict(computed))
    keys = list(table.primary_key.columns)
    return statement.on_conflict_do_nothing(index_elements=keys).returning(*keys)


SCHEMA_VERSION = 1
NO_KEY = ""
"""Whose runs are those that nobody signed: a server on loopback may ask for no key."""

metadata = MetaData()

schema = Table("schema_version", metadata, Column("version", Integer, primary_key=True))

keys = Table(
    "api_keys",
    metadata,
    Column("name", String(200), primary_key=True),
    Column("digest", String(64), nullable=False, unique=True),
    Column("hint", String(20), nullable=False),
    Column("pico_per_day", BigInteger),
    Column("requests_per_minute", Integer),
    Column("created_at", Float, nullable=False),
    Column("revoked_at", Float),
)

servers = Table(
    "servers",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("name", String(200), nullable=False),
    Column("alive_until", Float, nullable=False),
)

days = Table(
    "key_days",
    metadata,
    Column("key", ForeignKey("api_keys.name"), primary_key=True),
    Column("day", String(10), primary_key=True),
    Column("reserved", BigInteger, nullable=False),
    Column("spent", BigInteger, nullable=False),
)

reservations = Table(
    "reservations",
    metadata,
    Column("id", String(32), primary_key=True),
    Column("run_id", String(200), nullable=False, index=True),
    Column("key", ForeignKey("api_keys.name"), nullable=False),
    Column("day", String(10), nullable=False),
    Column("server", String(32), nullable=False),
    Column("amount", BigInteger, nullable=False),
    Column("committed", BigInteger, nullable=False),
    Column("spent", BigInteger),
    Column("expired", Boolean, nullable=False),
    Column("began_at", Float, nullable=False),
)
"""`spent` is null while one is open; `expired` where its server died."""
_is_open = reservations.c.spent.is_(None)
Index("open_reservations", reservations.c.server, postgresql_where=_is_open, sqlite_where=_is_open)

requests = Table(
    "key_requests",
    metadata,
    Column("key", ForeignKey("api_keys.name"), primary_key=True),
    Column("second", BigInteger, primary_key=True),
    Column("requests", Integer, nullable=False),
)

served = Table(
    "served_runs",
    metadata,
    Column("run_id", String(200), primary_key=True),
    Column("key", String(200), nullable=False),
    Column("server", String(32), nullable=False),
    Column("began_at", Float, nullable=False, index=True),
    Column("plan", JSON),
    Column("receipt", JSON),
)

feedback = Table(
    "feedback",
    metadata,
    Column("run_id", ForeignKey("served_runs.run_id"), primary_key=True),
    Column("key", String(200), nullable=False),
    Column("score", Float),
    Column("answer", Text),
    Column("tests", Text),
    Column("given_at", Float, nullable=False),
)

parked = Table(
    "parked_runs",
    metadata,
    Column("id", String(200), primary_key=True),
    Column("key", String(200), nullable=False),
    Column("state", JSON, nullable=False),
    Column("parked_at", Float, nullable=False),
    Column("taken_by", String(32)),
)


class now(FunctionElement[float]):  # noqa: N801 - a SQL function
    """Seconds since 1970, by the database's clock: servers' own may differ."""

    type = Float()
    inherit_cache = True


@compiles(now, "sqlite")
def _sqlite_now(element: now, compiler: Any, **options: Any) -> str:
    return "((julianday('now') - 2440587.5) * 86400.0)"


@compiles(now, "postgresql")
def _postgresql_now(element: now, compiler: Any, **options: Any) -> str:
    return "extract(epoch FROM clock_timestamp())::float8"
