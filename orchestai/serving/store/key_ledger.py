"""The day of a key as the account that pays for a run; all servers on one database share it."""

from __future__ import annotations

import asyncio
import logging
import uuid
from collections.abc import Callable
from concurrent.futures import Future

from sqlalchemy import Connection

from orchestai.execution.contract.ledger import InsufficientFundsError, Reservation, usd
from orchestai.serving.store import key_days
from orchestai.serving.store.database import UNREACHABLE, Database
from orchestai.serving.store.key_days import Held, today

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
        await self._database.write_soon(self._held.key, work)
