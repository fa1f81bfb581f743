"""Tests that ask for a database run on both, each time on one that nobody has used."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest
from sqlalchemy import create_engine, text

from support.serving import postgres


@pytest.fixture(scope="session")
def postgres_address() -> Iterator[str]:
    reason = postgres.why_absent()
    if reason:
        pytest.skip(reason)
    with postgres.cluster() as address:
        yield address


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path}/served/runs.db"
    address: str = request.getfixturevalue("postgres_address")
    name = f"d{uuid.uuid4().hex}"
    engine = create_engine(address.format("postgres"), isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(text(f"CREATE DATABASE {name}"))
    engine.dispose()
    return address.format(name)
