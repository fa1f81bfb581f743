"""What a key may spend on a day: statements on the row of its day and on those of its reservations.

Each may be done twice with the effect of once. On every day, reserved + spent <= the key's limit, and `reserved` is the
sum of the amounts of the open reservations.
"""

from __future__ import annotations

from datetime import datetime, timezone
from typing import Any, NamedTuple

from sqlalchemy import Connection, Row, and_, bindparam, delete, func, select, update

from orchestai.execution.contract.ledger import InsufficientFundsError, usd
from orchestai.serving.store.tables import days, insert_new, keys, now, reservations

_NO_LIMIT = 2**62


class DaySpentError(InsufficientFundsError):
    """The key's day has less left."""

    def __str__(self) -> str:
        return f"{super().__str__()} of what this key may spend today, which is a day in UTC"


class ExpiredReservationError(InsufficientFundsError):
    """This server was taken for dead, and what the run had set aside was given to others."""

    def __init__(self) -> None:
        super().__init__(0.0)

    def __str__(self) -> str:
        return "what was reserved for this run has expired, since this server did not say in time that it was alive"


class Held(NamedTuple):
    """A reservation: an amount of a key's day, for a run of a server."""

    id: str
    run_id: str
    key: str
    day: str
    server: str
    amount: int


_limit = (
    select(func.coalesce(keys.c.pico_per_day, _NO_LIMIT))
    .where(keys.c.name == bindparam("of_key"), keys.c.revoked_at.is_(None))
    .scalar_subquery()
)
_this_day = and_(days.c.key == bindparam("of_key"), days.c.day == bindparam("on_day"))
_this_one = reservations.c.id == bindparam("of_id")
_is_open = reservations.c.spent.is_(None)
_TAKE = (
    update(days)
    .where(_this_day, days.c.reserved + days.c.spent + bindparam("more") <= _limit)
    .values(reserved=days.c.reserved + bindparam("more"))
)
_GIVE_BACK = (
    update(days)
    .where(_this_day)
    .values(reserved=days.c.reserved - bindparam("held"), spent=days.c.spent + bindparam("paid"))
)
_RESIZE = update(reservations).where(_this_one, _is_open).values(amount=bindparam("size"))
_COMMIT = update(reservations).where(_this_one, _is_open).values(committed=bindparam("most"))
_CLOSE = (
    update(reservations)
    .where(_this_one, _is_open)
    .values(spent=bindparam("paid"), expired=bindparam("by_death"))
    .returning(reservations.c.amount)
)
_SIZE = select(reservations.c.amount).where(_this_one, _is_open).with_for_update()
_FORGET = delete(reservations).where(_this_one)
_AVAILABLE = (
    select(keys.c.pico_per_day, keys.c.revoked_at, days.c.reserved, days.c.spent)
    .select_from(keys.outerjoin(days, and_(days.c.key == keys.c.name, days.c.day == bindparam("on_day"))))
    .where(keys.c.name == bindparam("of_key"))
)


def today() -> str:
    """The day in UTC, by this server's clock."""
    return datetime.now(timezone.utc).date().isoformat()


def reserve(connection: Connection, new: Held) -> None:
    """Set an amount of a day aside.

    Raises:
        InsufficientFundsError: there is less, or the key was revoked.
    """
    row = {**new._asdict(), "committed": 0, "spent": None, "expired": False}
    if insert_new(connection, reservations, row, began_at=now()):
        try:
            _take(connection, new, new.amount)
        except InsufficientFundsError:
            connection.execute(_FORGET, {"of_id": new.id})
            raise


def extend(connection: Connection, held: Held, amount: int) -> None:
    """Let a reservation be of this amount, more than it was.

    Raises:
        InsufficientFundsError: the day has less, the key was revoked, or the reservation has expired.
    """
    size = connection.scalar(_SIZE, {"of_id": held.id})
    if size is None:
        raise ExpiredReservationError
    if amount > size:
        _take(connection, held, amount - size)
        connection.execute(_RESIZE, {"of_id": held.id, "size": amount})


def commit(connection: Connection, held: Held, amount: int) -> None:
    """Let this much count as spent if the server dies.

    Raises:
        ExpiredReservationError: it was taken for dead.
    """
    if not connection.execute(_COMMIT, {"of_id": held.id, "most": amount}).rowcount:
        raise ExpiredReservationError


def close(connection: Connection, held: Held | Row[Any], spent: int, *, expired: bool = False) -> None:
    """Count what was spent, and give back the rest; nothing where it has expired or was closed."""
    amount = connection.scalar(_CLOSE, {"of_id": held.id, "paid": spent, "by_death": expired})
    if amount is not None:
        day = {"of_key": held.key, "on_day": held.day}
        connection.execute(_GIVE_BACK, {**day, "held": amount, "paid": spent})


def available(connection: Connection, key: str, day: str) -> int:
    """What is left; nothing of a key that was revoked."""
    row = connection.execute(_AVAILABLE, {"of_key": key, "on_day": day}).one_or_none()
    if row is None or row.revoked_at is not None:
        return 0
    limit = _NO_LIMIT if row.pico_per_day is None else row.pico_per_day
    return max(0, limit - (row.reserved or 0) - (row.spent or 0))


def _take(connection: Connection, held: Held, amount: int) -> None:
    wanted = {"of_key": held.key, "on_day": held.day, "more": amount}
    if connection.execute(_TAKE, wanted).rowcount:
        return
    is_first = insert_new(connection, days, {"key": held.key, "day": held.day, "reserved": 0, "spent": 0})
    if not (is_first and connection.execute(_TAKE, wanted).rowcount):
        raise DaySpentError(usd(available(connection, held.key, held.day)))
