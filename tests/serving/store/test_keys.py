"""A key's secret is in no table, and one that was revoked is refused."""

from __future__ import annotations

import time

import pytest
from sqlalchemy import Connection, select, update

from orchestai.errors import UserError
from orchestai.execution.contract.ledger import pico
from orchestai.serving.store import (
    Database,
    Feedback,
    FeedbackStore,
    KeyLedger,
    KeyStore,
    ParkedRuns,
    ServedRuns,
    keys,
)
from orchestai.serving.store.keys import TooManyRequestsError, count_request
from orchestai.serving.store.served_runs import forget_runs, forget_settled
from orchestai.serving.store.tables import keys as table
from orchestai.serving.store.tables import reservations, served


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


# Served runs, feedback and parked runs belong to the key that asked for them, and outlive servers.


def test_a_run_is_seen_by_its_owner_alone(url: str) -> None:
    with Database.open(url, lease_s=5) as database:
        runs = ServedRuns(database)
        runs.begin("run-1", "alice").result()
        running = runs.get("run-1", "alice")
        assert running is not None
        assert running.status == "running"
        runs.put("run-1", "alice", {"subtasks": []}, {"spent_usd": 0.5}).result()
        done = runs.get("run-1", "alice")
        assert done is not None
        assert (done.status, done.plan, done.receipt) == ("done", {"subtasks": []}, {"spent_usd": 0.5})
        assert runs.get("run-1", "bob") is None
        with pytest.raises(UserError, match="take another"):
            runs.begin("run-1", "bob").result()


def test_feedback_is_of_ones_own_runs_and_the_last_counts(url: str) -> None:
    with Database.open(url, lease_s=5) as database:
        ServedRuns(database).put("run-1", "alice", None, {}).result()
        store = FeedbackStore(database)
        store.put("run-1", "alice", Feedback(score=0.0))
        store.put("run-1", "alice", Feedback(score=1.0, answer="Rome"))
        assert list(store.all()) == [("run-1", Feedback(1.0, "Rome"))]
        for run, key in (("run-1", "bob"), ("run-2", "alice")):
            with pytest.raises(UserError, match="no such run"):
                store.put(run, key, Feedback(score=1.0))
    for wrong in ({}, {"score": 1.5}, {"score": float("nan")}):
        with pytest.raises(UserError):
            Feedback(**wrong)  # type: ignore[arg-type]


def test_a_parked_run_is_resumed_once_and_by_another_server_where_the_first_died(url: str) -> None:
    first = Database.open(url, lease_s=0.5)
    parked = ParkedRuns(first)
    parked.put("call-1", "alice", {"node": "a"}).result()
    assert parked.take("call-1", "bob", 60).result() is None
    assert parked.take("call-1", "alice", -1).result() is None, "its client did not come back in time"
    assert parked.take("call-1", "alice", 60).result() == {"node": "a"}
    assert parked.take("call-1", "alice", 60).result() is None, "two requests would both go on with it"
    parked.give_back("call-1", "alice")
    assert parked.take("call-1", "alice", 60).result() == {"node": "a"}
    lease = first._lease
    assert lease is not None
    lease._closing.set()
    with Database.open(url, lease_s=0.5) as second:
        others = ParkedRuns(second)
        end = time.monotonic() + 20
        while (state := others.take("call-1", "alice", 60).result()) is None and time.monotonic() < end:
            time.sleep(0.1)
        assert state == {"node": "a"}
        others.put("call-1", "alice", {"node": "b"}).result()
        assert others.take("call-1", "alice", 60).result() == {"node": "b"}
        others.drop("call-1", "alice").result()
        assert others.take("call-1", "alice", 60).result() is None
        others.put("call-2", "alice", {}).result()
        assert others.forget_older(3600) == 0
        assert others.forget_older(-1) == 1


def test_servers_count_requests_together(url: str) -> None:
    with Database.open(url, lease_s=5) as first, Database.open(url, lease_s=5) as second:
        KeyStore(first).add("alice", requests_per_minute=5)
        for number in range(5):
            count_request((first, second)[number % 2], "alice", 5)
        with pytest.raises(TooManyRequestsError) as caught:
            count_request(first, "alice", 5)
        assert 0 < caught.value.retry_after_s <= 61
        count_request(second, "alice", None)
        first.write("", lambda connection: connection.exec_driver_sql("UPDATE key_requests SET second = second - 61"))
        count_request(second, "alice", 5)


async def test_what_is_too_old_is_forgotten(url: str) -> None:
    """Else the database grows for ever; sums of days, and what is still open, stay."""
    with Database.open(url, lease_s=5) as database:
        KeyStore(database).add("alice", 1.0)
        ledger, runs = KeyLedger(database, "alice"), ServedRuns(database)
        for name in ("old", "new"):
            runs.put(name, "alice", None, {}).result()
            FeedbackStore(database).put(name, "alice", Feedback(score=1.0))
        open_one = await ledger.reserve(pico(0.2), "open")
        for name in ("settled", "new"):
            async with await ledger.reserve(pico(0.1), name) as reservation:
                reservation.spend(pico(0.1))

        def age(connection: Connection) -> None:
            long_ago = reservations.c.began_at - 900
            connection.execute(update(reservations).where(reservations.c.run_id != "new").values(began_at=long_ago))
            connection.execute(update(served).where(served.c.run_id == "old").values(began_at=served.c.began_at - 900))

        database.write("", age)
        assert forget_settled(database, 600) == 1
        assert forget_runs(database, 600) == 1
        assert (forget_settled(database, 600), forget_runs(database, 600)) == (0, 0)
        with database.reading() as connection:
            left = connection.scalars(select(reservations.c.run_id).order_by(reservations.c.run_id)).all()
        assert left == ["new", "open"]
        assert runs.get("old", "alice") is None
        assert runs.get("new", "alice") is not None
        assert [run for run, _ in FeedbackStore(database).all()] == ["new"]
        assert ledger.available_usd == pytest.approx(0.6)
        await open_one.close()
        assert ledger.available_usd == pytest.approx(0.8)
