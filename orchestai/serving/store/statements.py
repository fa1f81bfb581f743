"""Statements that SQLite and PostgreSQL both know, and SQLAlchemy spells for each."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from sqlalchemy import Connection, Table
from sqlalchemy.dialects import postgresql, sqlite


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
