"""Processes that spend one key's money at a time, some of them killed: no overspend, and a ledger that is right."""

from __future__ import annotations

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest
from sqlalchemy import func, select

from orchestai.execution.contract.ledger import usd, whole
from orchestai.serving.store import Database, KeyLedger, KeyStore
from orchestai.serving.store.tables import days, reservations
from support.serving import spender

BUDGET_USD = 0.2
KILLS = 4


def spending(url: str, bills: Path, seed: int) -> subprocess.Popen[str]:
    arguments = [sys.executable, spender.__file__, url, "alice", str(bills), str(seed)]
    return subprocess.Popen(arguments, stdout=subprocess.PIPE, text=True)


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_a_days_money_is_spent_once_whoever_is_killed(url: str, tmp_path: Path) -> None:
    bills, draw = tmp_path / "bills", random.Random(5)
    with Database.open(url) as database:
        KeyStore(database).add("alice", BUDGET_USD)
    running = [spending(url, bills, seed) for seed in range(2)]
    for kill in range(KILLS):
        victim = running.pop(0)
        assert victim.stdout is not None
        assert victim.stdout.readline() == "ready\n"
        time.sleep(draw.uniform(0.05, 0.4))
        victim.kill()
        victim.wait()
        running.append(spending(url, bills, 10 + kill))
    for survivor in running:
        assert survivor.wait(120) == 0
    with Database.open(url, lease_s=spender.LEASE_S) as database:
        ledger, end = KeyLedger(database, "alice"), time.monotonic() + 30
        while reserved(database):
            assert time.monotonic() < end, "what a dead server reserved has not expired"
            time.sleep(0.1)
        billed = sum(map(int, bills.read_text().split()))
        with database.reading() as connection:
            spent = connection.scalar(select(func.sum(days.c.spent))) or 0
            expired = connection.scalars(select(reservations.c.spent).where(reservations.c.expired)).all()
            assert connection.scalar(select(func.sum(reservations.c.spent))) == spent
        assert billed <= spent <= whole(BUDGET_USD)
        assert spent - billed <= len(expired) * 4 * 3 * spender.CALL
        assert len(expired) > 0, "nobody was killed in the middle of a run"
        assert usd(whole(BUDGET_USD) - int(spent)) == pytest.approx(ledger.available_usd)


def reserved(database: Database) -> int:
    with database.reading() as connection:
        return int(connection.scalar(select(func.sum(days.c.reserved))) or 0)
