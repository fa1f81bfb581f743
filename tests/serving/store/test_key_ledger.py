"""A key's day is never overspent, whoever asks, however servers end; and the sums in the database are right."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sqlalchemy import func, select

from orchestai.execution.contract.ledger import InsufficientFundsError, pico, usd, whole
from orchestai.serving.store import Database, ExpiredReservationError, KeyLedger, KeyStore
from orchestai.serving.store.tables import days, reservations

LEASE_S = 0.6


def opened(url: str, usd_per_day: float | None = 1.0) -> tuple[Database, KeyLedger]:
    database = Database.open(url, lease_s=LEASE_S)
    if not KeyStore(database).list():
        KeyStore(database).add("alice", usd_per_day)
    return database, KeyLedger(database, "alice")


def sums(database: Database) -> tuple[int, int]:
    """Reserved and spent, after checking that they are what the reservations come to."""
    with database.reading() as connection:
        reserved, spent = connection.execute(
            select(func.coalesce(func.sum(days.c.reserved), 0), func.coalesce(func.sum(days.c.spent), 0))
        ).one()
        amounts = select(func.coalesce(func.sum(reservations.c.amount), 0)).where(reservations.c.spent.is_(None))
        assert connection.scalar(amounts) == reserved
        assert connection.scalar(select(func.coalesce(func.sum(reservations.c.spent), 0))) == spent
    return int(reserved), int(spent)


async def test_a_run_that_goes_on_after_midnight_is_paid_by_the_day_it_began_on(
    url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the new day could be overspent by what was reserved of the old one, or the old one paid twice."""
    database, ledger = opened(url)

    def be(day: str) -> None:
        monkeypatch.setattr("orchestai.serving.store.keys.today", lambda: day)

    be("2026-01-31")
    async with await ledger.reserve(pico(0.6)) as late:
        be("2026-02-01")
        with pytest.raises(InsufficientFundsError, match=r"0\.4 USD"):
            await late.extend(pico(0.5))
        async with await ledger.reserve(pico(1.0)) as early:
            await late.extend(pico(0.3))
            early.spend(pico(0.2))
        late.spend(pico(0.9))
    with database.reading() as connection:
        by_day = {row.day: (row.reserved, row.spent) for row in connection.execute(select(days))}
    assert by_day == {"2026-01-31": (0, pico(0.9)), "2026-02-01": (0, pico(0.2))}
    be("2026-01-31")  # a clock that was set back
    assert ledger.available_usd == pytest.approx(0.1)
    database.close()


async def test_what_a_dead_server_had_committed_counts_as_spent(url: str) -> None:
    """It may have been billed: to give it back would let the day be overspent. The rest goes back."""
    dead, its_ledger = opened(url)
    reservation = await its_ledger.reserve(pico(0.7))
    await reservation.commit(pico(0.2))
    stop_renewing(dead)
    database, ledger = opened(url)
    assert ledger.available_usd == pytest.approx(0.3)
    wait_until(lambda: ledger.available_usd > 0.3)
    assert sums(database) == (0, pico(0.2))

    with pytest.raises(ExpiredReservationError):
        await reservation.commit(pico(0.3))
    with pytest.raises(ExpiredReservationError):
        await reservation.extend(pico(0.1))
    reservation.spend(pico(0.1))
    await reservation.close()
    assert sums(database) == (0, pico(0.2)), "a server that was taken for dead changes nothing"
    database.close()


async def test_a_server_that_ends_in_order_leaves_nothing_reserved(url: str) -> None:
    database, ledger = opened(url)
    await ledger.reserve(pico(0.5))
    database.close()
    after, ledger = opened(url)
    assert ledger.available_usd == 1.0
    after.close()


KINDS = st.sampled_from(["reserve", "extend", "commit", "spend", "close"])
OPERATIONS = st.lists(st.tuples(KINDS, st.integers(0, 7), st.integers(0, 400)), max_size=40)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(OPERATIONS)
def test_any_order_of_operations_keeps_the_sums(url: str, operations: list[tuple[str, int, int]]) -> None:
    """Two servers and eight runs against the model of one integer: nothing is overdrawn or lost."""
    asyncio.run(_compare_with_model(url, operations))


async def _compare_with_model(url: str, operations: list[tuple[str, int, int]]) -> None:
    limit, name = 1000, uuid.uuid4().hex
    first, second = Database.open(url, lease_s=60), Database.open(url, lease_s=60)
    KeyStore(first).add(name, usd(limit))
    ledgers = KeyLedger(first, name), KeyLedger(second, name)
    held: dict[int, list[int]] = {}
    opened_ones = {}
    spent = 0
    for operation, run, amount in operations:
        left = limit - spent - sum(amount for amount, _ in held.values())
        if operation == "reserve" and run not in held:
            if amount <= left:
                opened_ones[run], held[run] = await ledgers[run % 2].reserve(amount), [amount, 0]
            else:
                with pytest.raises(InsufficientFundsError):
                    await ledgers[run % 2].reserve(amount)
        elif run in held and operation == "extend":
            if amount <= left:
                await opened_ones[run].extend(amount)
                held[run][0] += amount
            else:
                with pytest.raises(InsufficientFundsError):
                    await opened_ones[run].extend(amount)
        elif run in held and operation == "commit":
            await opened_ones[run].commit(min(amount, held[run][0]))
        elif run in held and operation == "spend" and held[run][1] + amount <= held[run][0]:
            opened_ones[run].spend(amount)
            held[run][1] += amount
        elif run in held and operation == "close":
            await opened_ones.pop(run).close()
            spent += held.pop(run)[1]
        assert whole(ledgers[1].available_usd) == limit - spent - sum(amount for amount, _ in held.values())
    sums(first)
    first.close()
    second.close()


def stop_renewing(database: Database) -> None:
    """What a process that is killed or stands still does."""
    lease = database._lease
    assert lease is not None
    lease._closing.set()
    lease._thread.join()


def wait_until(condition: Callable[[], bool], at_most_s: float = 20.0) -> None:
    end = time.monotonic() + at_most_s
    while not condition():
        assert time.monotonic() < end, "it did not happen in time"
        time.sleep(0.05)
