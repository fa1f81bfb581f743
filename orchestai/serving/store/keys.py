"""Keys of the endpoint, of which only digests are kept, their limits, and the day of a key as an account that pays."""

from __future__ import annotations

import asyncio
import hashlib
import logging
import secrets
import time
import uuid
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass

from sqlalchemy import Connection, delete, func, insert, select, update

from orchestai.errors import UserError
from orchestai.execution.contract.ledger import InsufficientFundsError, Reservation, usd, whole
from orchestai.serving.store import key_days
from orchestai.serving.store.database import UNREACHABLE, Database
from orchestai.serving.store.key_days import Held, today
from orchestai.serving.store.tables import days, insert_or_change, keys, now, requests

_WINDOW_S = 60


class TooManyRequestsError(Exception):
    """A key's minute is full.

    Attributes:
        retry_after_s: when there is room again.
    """

    def __init__(self, retry_after_s: float) -> None:
        super().__init__(f"too many requests in a minute; try again in {retry_after_s:.0f} s")
        self.retry_after_s = retry_after_s


def count_request(database: Database, key: str, per_minute: int | None) -> None:
    """Count one request, by the second, so that in no 60 seconds there are more than a key may make; blocks.

    Raises:
        TooManyRequestsError: there were as many as there may be.
    """
    if per_minute is None:
        return
    wait_s = database.write(f"{key}\0requests", lambda connection: _take(connection, key, per_minute))
    if wait_s:
        raise TooManyRequestsError(wait_s)


def _take(connection: Connection, key: str, per_minute: int) -> float:
    """Count a request, or give the seconds until there is room."""
    connection.execute(select(keys.c.name).where(keys.c.name == key).with_for_update(key_share=True))
    at = connection.scalar(select(now())) or 0.0
    second = int(at)
    mine = requests.c.key == key
    connection.execute(delete(requests).where(mine, requests.c.second < second - _WINDOW_S))
    count, oldest = connection.execute(
        select(func.coalesce(func.sum(requests.c.requests), 0), func.min(requests.c.second)).where(mine)
    ).one()
    if count >= per_minute:
        return max(1.0, float(oldest + _WINDOW_S + 1) - at)
    row = {"key": key, "second": second, "requests": 1}
    insert_or_change(connection, requests, row, {"requests": requests.c.requests + 1})
    return 0.0


_PREFIX = "sk-orchestai-"
_MOST_USD = 1e6
_REMEMBERED_S = 2.0
"""How long a key that was revoked may still be taken for good."""
_MOST_REMEMBERED = 10_000


@dataclass(frozen=True)
class KeyAccount:
    """A key's owner and limits; None is no limit.

    Attributes:
        hint: how the secret begins, to tell keys apart.
        spent_usd, reserved_usd: today, in UTC.
    """

    name: str
    usd_per_day: float | None
    requests_per_minute: int | None
    hint: str = ""
    revoked: bool = False
    spent_usd: float = 0.0
    reserved_usd: float = 0.0


class KeyStore:
    """The keys in a database. A secret has 256 random bits, so one round of SHA-256 hides it."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._remembered: dict[str, tuple[float, KeyAccount | None]] = {}

    def add(self, name: str, usd_per_day: float | None = None, requests_per_minute: int | None = None) -> str:
        """Make a key.

        Returns:
            The secret, which nobody can show again.
        """
        if not name.strip() or len(name) > 200:
            raise UserError(f"name={name!r}: a key needs a name of 1 to 200 characters")
        if usd_per_day is not None and not 0 <= usd_per_day <= _MOST_USD:
            raise UserError(f"usd_per_day={usd_per_day}: a limit lies between 0 and {_MOST_USD:g} USD")
        if requests_per_minute is not None and requests_per_minute < 1:
            raise UserError(f"requests_per_minute={requests_per_minute}: a limit is 1 or more")
        secret = _PREFIX + secrets.token_urlsafe(32)
        row = {
            "name": name,
            "digest": _digest(secret),
            "hint": secret[: len(_PREFIX) + 4],
            "pico_per_day": None if usd_per_day is None else whole(usd_per_day),
            "requests_per_minute": requests_per_minute,
        }

        def write(connection: Connection) -> None:
            if connection.scalar(select(keys.c.name).where(keys.c.name == name)) is not None:
                raise UserError(f"{name}: there is a key of this name already, or was; choose another name")
            connection.execute(insert(keys).values(**row, created_at=now()))

        self._database.write(name, write)
        return secret

    def list(self) -> list[KeyAccount]:
        """All keys that ever were, by name."""
        joined = keys.outerjoin(days, (days.c.key == keys.c.name) & (days.c.day == today()))
        with self._database.reading() as connection:
            rows = connection.execute(
                select(keys, days.c.reserved, days.c.spent).select_from(joined).order_by(keys.c.name)
            )
            return [
                KeyAccount(
                    name=row.name,
                    usd_per_day=None if row.pico_per_day is None else usd(row.pico_per_day),
                    requests_per_minute=row.requests_per_minute,
                    hint=row.hint,
                    revoked=row.revoked_at is not None,
                    spent_usd=usd(row.spent or 0),
                    reserved_usd=usd(row.reserved or 0),
                )
                for row in rows
            ]

    def revoke(self, name: str) -> None:
        """Refuse a key from now on; servers that have just seen it do so within two seconds."""
        statement = update(keys).where(keys.c.name == name, keys.c.revoked_at.is_(None)).values(revoked_at=now())
        if not self._database.write(name, lambda connection: connection.execute(statement).rowcount):
            raise UserError(f"{name}: there is no key of this name that is not revoked; see orchestai keys list")

    def authenticate(self, secret: str) -> KeyAccount | None:
        """Whose key this is; None where it is none, or was revoked."""
        digest = _digest(secret)
        remembered = self._remembered.get(digest)
        if remembered is not None and time.monotonic() < remembered[0]:
            return remembered[1]
        with self._database.reading() as connection:
            row = connection.execute(
                select(keys).where(keys.c.digest == digest, keys.c.revoked_at.is_(None))
            ).one_or_none()
        account = None
        if row is not None:
            limit = None if row.pico_per_day is None else usd(row.pico_per_day)
            account = KeyAccount(row.name, limit, row.requests_per_minute, row.hint)
        if len(self._remembered) >= _MOST_REMEMBERED:
            self._remembered.clear()
        self._remembered[digest] = time.monotonic() + _REMEMBERED_S, account
        return account


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()


logger = logging.getLogger(__name__)


class KeyLedger:
    """Reserves money of a key's day before it is spent: an `Account` for `Orchestrator.run(ledger=...)`.

    Args:
        database: opened with a lease.
        key: its name.
    """

    def __init__(self, database: Database, key: str) -> None:
        if database.server is None:
            raise ValueError("only a server reserves money: open the database with lease_s")
        self._database = database
        self.key = key

    @property
    def available_usd(self) -> float:
        """What is left of today; blocks."""
        with self._database.reading() as connection:
            return usd(key_days.available(connection, self.key, today()))

    async def reserve(self, amount: int, run_id: str = "") -> Reservation:
        """Set an amount aside.

        Args:
            amount: in the unit of `pico`; nothing is written before there is one.
            run_id: of the run that it is for, under which it is found again.

        Raises:
            InsufficientFundsError: the day has less, or the key was revoked.
        """
        held = Held(uuid.uuid4().hex, run_id, self.key, today(), self._database.server or "", 0)
        reservation = KeyReservation(self._database, held)
        try:
            await reservation.extend(amount)
        except BaseException:
            reservation.give_up()
            raise
        return reservation


class KeyReservation(Reservation):
    """An amount of one key's day, in the database.

    Its writes are done in the order in which they were asked for, so that one that is closed is closed, though whoever
    waits for the writes before may be cancelled.
    """

    def __init__(self, database: Database, held: Held) -> None:
        super().__init__(0)
        self._database = database
        self._held = held
        self._is_there = False
        self._committed = 0

    async def extend(self, amount: int) -> None:
        if not amount:
            return
        wanted = self.amount + amount
        if self._is_there:
            await self._write(lambda connection: key_days.extend(connection, self._held, wanted))
        else:
            self._is_there = True
            held = self._held._replace(amount=wanted)
            try:
                await self._write(lambda connection: key_days.reserve(connection, held))
            except InsufficientFundsError:
                self._is_there = False
                raise
        self.amount = wanted

    async def commit(self, amount: int) -> None:
        if amount > self._committed:
            await self._write(lambda connection: key_days.commit(connection, self._held, amount))
            self._committed = amount

    async def close(self) -> None:
        if not self._is_there:
            return
        try:
            await asyncio.shield(asyncio.wrap_future(self._settle()))
        except UNREACHABLE:
            logger.error("%s: the database does not answer; what it spent is settled as soon as it does", self._held)

    def give_up(self) -> None:
        """Close it without waiting."""
        if self._is_there:
            self._settle()

    def _settle(self) -> Future[None]:
        spent = self.spent
        return self._database.persist(self._held.key, lambda connection: key_days.close(connection, self._held, spent))

    async def _write(self, work: Callable[[Connection], None]) -> None:
        """Write it; whoever is cancelled while it waits does not undo it."""
        await asyncio.shield(asyncio.wrap_future(self._database.submit(self._held.key, work)))
