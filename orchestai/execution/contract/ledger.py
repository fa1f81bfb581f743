"""Money that concurrent runs share: reserved before it can be spent, and given back where it was not."""

from __future__ import annotations

import math
import threading
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Protocol

_PICO = 1e12
_MOST_USD = 1e9


class InsufficientFundsError(Exception):
    """An account has less left than was to be reserved.

    Attributes:
        available_usd: what is left.
    """

    def __init__(self, available_usd: float) -> None:
        super().__init__(f"{available_usd:.9g} USD are left")
        self.available_usd = available_usd


class Account(Protocol):
    """Where runs take their money from: a `Ledger`, or what several processes share in a database."""

    async def reserve(self, amount: int, run_id: str = "") -> Reservation:
        """Set an amount aside for a run, in the unit of `pico`.

        Raises:
            InsufficientFundsError: there is less.
        """
        ...


class Ledger:
    """What may be spent, by all runs of this process together. Threads may share it.

    Args:
        limit_usd: None is no limit.
    """

    def __init__(self, limit_usd: float | None = None) -> None:
        if limit_usd is not None and not 0 <= limit_usd <= _MOST_USD:
            raise ValueError(f"limit_usd={limit_usd}: a limit lies between 0 and {_MOST_USD:g}; None is no limit")
        self._limit = None if limit_usd is None else whole(limit_usd)
        self._reserved = 0
        self._spent = 0
        self._lock = threading.Lock()

    @property
    def reserved_usd(self) -> float:
        """Of runs that have not ended."""
        return usd(self._reserved)

    @property
    def spent_usd(self) -> float:
        """Of runs that have ended; bills that nobody has seen count with the most that they can be."""
        return usd(self._spent)

    @property
    def available_usd(self) -> float:
        """Infinity without a limit."""
        return math.inf if self._limit is None else usd(self._limit - self._reserved - self._spent)

    async def reserve(self, amount: int, run_id: str = "") -> Reservation:
        """Set an amount aside, in the unit of `pico`.

        Raises:
            InsufficientFundsError: there is less.
        """
        self._take(amount)
        return _Share(self, amount)

    def _take(self, amount: int) -> None:
        with self._lock:
            if self._limit is not None and (left := self._limit - self._reserved - self._spent) < amount:
                raise InsufficientFundsError(usd(left))
            self._reserved += amount

    def _settle(self, reserved: int, spent: int) -> None:
        with self._lock:
            self._reserved -= reserved
            self._spent += spent


class Reservation(ABC):
    """An amount set aside for one run; a context manager, at whose end what was not spent goes back.

    Attributes:
        amount, spent: in the unit of `pico`; never is more spent than was set aside.
    """

    def __init__(self, amount: int) -> None:
        self.amount = amount
        self.spent = 0

    @property
    def amount_usd(self) -> float:
        return usd(self.amount)

    @property
    def spent_usd(self) -> float:
        return usd(self.spent)

    @abstractmethod
    async def extend(self, amount: int) -> None:
        """Set more aside.

        Raises:
            InsufficientFundsError: the account has less; the reservation stays as it was.
        """

    @abstractmethod
    async def commit(self, amount: int) -> None:
        """Let this much of it count as spent if nothing more is heard of the run, whose process may be killed.

        Args:
            amount: what was spent, and the most that the calls can be billed that are about to be made or on their way.
        """

    @abstractmethod
    async def close(self) -> None:
        """Count what was spent, and give back the rest."""

    def spend(self, amount: int) -> None:
        """Note what was paid, or may have been."""
        if self.spent + amount > self.amount:
            raise ValueError(
                f"{usd(amount)} USD on top of {self.spent_usd} are more than the {self.amount_usd} reserved"
            )
        self.spent += amount

    async def __aenter__(self) -> Reservation:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


class _Share(Reservation):
    """Of a ledger, which ends with the process."""

    def __init__(self, ledger: Ledger, amount: int) -> None:
        super().__init__(amount)
        self._ledger = ledger

    async def extend(self, amount: int) -> None:
        self._ledger._take(amount)
        self.amount += amount

    async def commit(self, amount: int) -> None:
        pass

    async def close(self) -> None:
        self._ledger._settle(self.amount, self.spent)


def pico(amount_usd: float) -> int:
    """Whole millionths of a millionth of a dollar, rounded up: sums and comparisons of them are exact."""
    return math.ceil(amount_usd * _PICO)


def whole(limit_usd: float) -> int:
    """The same of a limit, to the nearest, so that a limit that was printed is the one that was meant."""
    return round(limit_usd * _PICO)


def usd(amount: int) -> float:
    """US dollars, of an amount in the unit of `pico`."""
    return amount / _PICO
