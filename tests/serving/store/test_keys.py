"""A key's secret is in no table, and one that was revoked is refused."""

from __future__ import annotations

import pytest
from sqlalchemy import select

from orchestai.errors import UserError
from orchestai.serving.store import Database, KeyStore, keys
from orchestai.serving.store.tables import keys as table


def test_a_key_is_known_by_its_secret_alone(url: str) -> None:
    with Database.open(url) as database:
        store = KeyStore(database)
        secret = store.add("alice", usd_per_day=0.1, requests_per_minute=60)
        account = store.authenticate(secret)
        assert account is not None
        assert (account.name, account.usd_per_day, account.requests_per_minute) == ("alice", 0.1, 60)
        assert store.authenticate(secret[:-1]) is None
        assert store.authenticate("") is None
        with database.reading() as connection:
            (row,) = connection.execute(select(table)).all()
        assert secret[: len("sk-orchestai-") + 5] not in str(tuple(row))


def test_a_revoked_key_is_refused_within_seconds(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(keys, "_REMEMBERED_S", 0.0)
    with Database.open(url) as database:
        store = KeyStore(database)
        secret = store.add("alice")
        assert store.authenticate(secret) is not None
        store.revoke("alice")
        assert store.authenticate(secret) is None
        assert [account.revoked for account in store.list()] == [True]
        for name in ("alice", "bob"):
            with pytest.raises(UserError, match="no key of this name"):
                store.revoke(name)


def test_a_name_is_given_once_and_limits_are_limits(url: str) -> None:
    """Runs, feedback and money are kept by name: a second owner would see the first's."""
    with Database.open(url) as database:
        store = KeyStore(database)
        store.add("alice")
        store.revoke("alice")
        with pytest.raises(UserError, match="already, or was"):
            store.add("alice")
        for wrong in ({"usd_per_day": -1.0}, {"usd_per_day": float("nan")}, {"requests_per_minute": 0}):
            with pytest.raises(UserError, match="limit"):
                store.add("bob", **wrong)  # type: ignore[arg-type]
        with pytest.raises(UserError, match="name"):
            store.add(" ")


def test_tables_of_another_version_are_refused(url: str) -> None:
    with Database.open(url) as database:
        database.write("", lambda connection: connection.exec_driver_sql("UPDATE schema_version SET version = 99"))
    with pytest.raises(UserError, match="version 99"):
        Database.open(url)


def test_an_address_that_is_none_is_refused_without_its_password() -> None:
    for wrong in ("somewhere", "mysql://u:geheim@h/d", "sqlite://", "postgresql+psycopg://u:geheim@127.0.0.1:9/d"):
        with pytest.raises(UserError, match="database") as caught:
            Database.open(wrong)
        assert "geheim" not in str(caught.value)
