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
