"""Keys of the endpoint: only digests of them are kept, and each has its limits."""

from __future__ import annotations

import hashlib
import secrets
import time
from dataclasses import dataclass

from sqlalchemy import Connection, delete, func, insert, select, update

from orchestai.errors import UserError
from orchestai.execution.contract.ledger import usd, whole
from orchestai.serving.store.database import Database
from orchestai.serving.store.key_days import today
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


class RequestRate:
    """Counts requests by the second, so that in no 60 seconds there are more than a key may make."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def take(self, key: str, per_minute: int | None) -> None:
        """Count one request; blocks.

        Raises:
            TooManyRequestsError: there were as many as there may be.
        """
        if per_minute is None:
            return
        wait_s = self._database.write(f"{key}\0requests", lambda connection: _take(connection, key, per_minute))
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

        Raises:
            UserError: there is or was one of this name, or a limit is none.
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
        """Refuse a key from now on; servers that have just seen it do so within two seconds.

        Raises:
            UserError: there is none of this name, or it is revoked already.
        """
        statement = update(keys).where(keys.c.name == name, keys.c.revoked_at.is_(None)).values(revoked_at=now())
        if not self._database.write(name, lambda connection: connection.execute(statement).rowcount):
            raise UserError(f"{name}: there is no key of this name that is not revoked; see orchestai keys list")

    def authenticate(self, secret: str) -> KeyAccount | None:
        """Whose key this is; None where it is none, or was revoked."""
        digest = _digest(secret)
        remembered = self._remembered.get(digest)
        if remembered is not None and time.monotonic() < remembered[0]:
            return remembered[1]
        account = self._find(digest)
        if len(self._remembered) >= _MOST_REMEMBERED:
            self._remembered.clear()
        self._remembered[digest] = time.monotonic() + _REMEMBERED_S, account
        return account

    def _find(self, digest: str) -> KeyAccount | None:
        with self._database.reading() as connection:
            row = connection.execute(
                select(keys).where(keys.c.digest == digest, keys.c.revoked_at.is_(None))
            ).one_or_none()
        if row is None:
            return None
        limit = None if row.pico_per_day is None else usd(row.pico_per_day)
        return KeyAccount(row.name, limit, row.requests_per_minute, row.hint)


def _digest(secret: str) -> str:
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
