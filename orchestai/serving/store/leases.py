"""A server says again and again that it is alive; what one had reserved that says so no more expires."""

from __future__ import annotations

import logging
import os
import socket
import threading
import uuid
from collections.abc import Callable
from typing import Any, Protocol

from sqlalchemy import ColumnElement, Connection, delete, insert, select, update

from orchestai.serving.store.key_days import close
from orchestai.serving.store.tables import now, parked, reservations, servers

logger = logging.getLogger(__name__)
_RENEWALS = 3
"""Per lease: so often may one fail that the server is still taken for alive."""


class Write(Protocol):
    def __call__(self, account: str, work: Callable[[Connection], Any]) -> Any: ...


class Lease:
    """Of one server, renewed by a thread until it is closed; the thread also settles what dead servers have left.

    Args:
        seconds: after the last renewal, when others take this server for dead. One that was only slow is refused from
            then on whatever it wants to spend on runs that it has begun.

    Attributes:
        server: its id, which no other process has.
    """

    def __init__(self, write: Write, seconds: float) -> None:
        self.server = uuid.uuid4().hex
        self._write = write
        self._seconds = seconds
        self._closing = threading.Event()
        write("", self._begin)
        self._thread = threading.Thread(target=self._renew_until_closed, name="lease", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """End it; reservations that are still open expire at once."""
        self._closing.set()
        self._thread.join()
        self._write("", self._end)

    def _renew_until_closed(self) -> None:
        while not self._closing.wait(self._seconds / _RENEWALS):
            try:
                self._write("", self._renew)
                self._write("", expire_of_dead)
            except Exception:
                logger.exception("the lease of this server was not renewed; trying again")

    def _begin(self, connection: Connection) -> None:
        name = f"{socket.gethostname()}:{os.getpid()}"
        connection.execute(insert(servers).values(id=self.server, name=name, alive_until=now() + self._seconds))

    def _renew(self, connection: Connection) -> None:
        alive = servers.update().where(servers.c.id == self.server).values(alive_until=now() + self._seconds)
        if not connection.execute(alive).rowcount:  # taken for dead: what it had is settled, and it begins anew
            self._begin(connection)

    def _end(self, connection: Connection) -> None:
        connection.execute(delete(servers).where(servers.c.id == self.server))
        _expire(connection, reservations.c.server == self.server)


def expire_of_dead(connection: Connection) -> None:
    """Settle what servers have reserved whose lease is over, and free what they were resuming."""
    alive = select(servers.c.id).where(servers.c.alive_until >= now())
    connection.execute(delete(servers).where(servers.c.id.not_in(alive)))
    _expire(connection, reservations.c.server.not_in(alive))
    connection.execute(update(parked).where(parked.c.taken_by.not_in(alive)).values(taken_by=None))


def _expire(connection: Connection, condition: ColumnElement[bool]) -> None:
    """Settle open reservations: what they had committed may have been billed, and counts as spent."""
    open_ones = select(reservations).where(condition, reservations.c.spent.is_(None))
    for row in connection.execute(open_ones.order_by(reservations.c.key, reservations.c.id).with_for_update()).all():
        close(connection, row, row.committed, expired=True)
