"""Writes of one process, in order, those that came together in one transaction."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from sqlalchemy import Connection, Engine
from sqlalchemy.exc import OperationalError

from orchestai.errors import UserError
from orchestai.execution.contract.ledger import InsufficientFundsError

T = TypeVar("T")
_TOGETHER = 256
_TRIES = 3
_PATIENCE_S = 0.01


@dataclass(frozen=True)
class _Write(Generic[T]):
    account: str
    work: Callable[[Connection], T]
    is_awaited: bool = True
    future: Future[T] = field(default_factory=Future)


class Writer:
    """A thread that writes to a database.

    A write may be done twice, where a connection broke while it was committed: the second time must change nothing. One
    that refuses (`UserError`, `InsufficientFundsError`) must do so before its first change.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine.execution_options(writes=True)
        self._connection: Connection | None = None
        self._waiting: queue.SimpleQueue[_Write[Any] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="database writer", daemon=True)
        self._closing = threading.Lock()
        self._closed = False
        self._thread.start()

    def submit(self, account: str, work: Callable[[Connection], T], *, is_awaited: bool = True) -> Future[T]:
        """Have something written after all that was submitted before for this account.

        Args:
            account: a key's name; writes of others may be done in another order.
            is_awaited: False lets it wait some milliseconds for others, to be written with them.

        Returns:
            What it gives, or raises, once it is committed.
        """
        write = _Write(account, work, is_awaited)
        with self._closing:
            if self._closed:
                raise RuntimeError("this database was closed")
            self._waiting.put(write)
        return write.future

    def close(self) -> None:
        """Write what was submitted, and end."""
        with self._closing:
            if not self._closed:
                self._closed = True
                self._waiting.put(None)
        self._thread.join()

    def _run(self) -> None:
        try:
            self._write_until_closed()
        finally:
            self._disconnect()

    def _write_until_closed(self) -> None:
        while (first := self._waiting.get()) is not None:
            together, ends = [first], False
            until = time.monotonic() + _PATIENCE_S
            while len(together) < _TOGETHER and not ends:
                patience_s = 0.0 if together[-1].is_awaited else until - time.monotonic()
                try:
                    write = self._waiting.get(timeout=max(patience_s, 0.0))
                except queue.Empty:
                    break
                if write is None:
                    ends = True
                else:
                    together.append(write)
            together.sort(key=lambda write: write.account)  # two servers that lock rows in one order never deadlock
            self._commit(together)
            if ends:
                return

    def _commit(self, together: list[_Write[Any]]) -> None:
        try:
            outcomes = self._attempt(together)
        except BaseException as error:
            if len(together) == 1:
                together[0].future.set_exception(error)
                return
            for write in together:
                self._commit([write])
            return
        for write, (value, refusal) in zip(together, outcomes, strict=True):
            if refusal is None:
                write.future.set_result(value)
            else:
                write.future.set_exception(refusal)

    def _attempt(self, together: list[_Write[Any]]) -> list[tuple[Any, Exception | None]]:
        for left in reversed(range(_TRIES)):
            try:
                if self._connection is None:
                    self._connection = self._engine.connect()
                with self._connection.begin():
                    return [_outcome(write, self._connection) for write in together]
            except OperationalError:  # a deadlock, a lock that was waited for in vain, a connection that broke
                self._disconnect()
                if not left:
                    raise
        raise AssertionError

    def _disconnect(self) -> None:
        """Give the connection up, which is kept between writes, since looking after it takes as long as a write."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


def _outcome(write: _Write[Any], connection: Connection) -> tuple[Any, Exception | None]:
    try:
        return write.work(connection), None
    except (InsufficientFundsError, UserError) as error:
        return None, error
