"""Whoever fails again and again is not asked for a while, and then once, to see."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from orchestai.errors import FaultKind, InfrastructureError

_until: ContextVar[float | None] = ContextVar("until", default=None)


@contextmanager
def answers_until(deadline: float | None) -> Iterator[None]:
    """What is asked in this block has to be answered by then.

    Args:
        deadline: on the clock of `time.monotonic`; None is none.
    """
    before = _until.set(deadline)
    try:
        yield
    finally:
        _until.reset(before)


def is_too_long(wait_s: float) -> bool:
    """Whether the deadline comes within a wait."""
    deadline = _until.get()
    return deadline is not None and time.monotonic() + wait_s >= deadline


_NOBODYS: frozenset[FaultKind] = frozenset(
    {"bad_request", "recording_missing", "memory", "sandbox", "node", "task", "scorer"}
)
"""Faults that say nothing of the worker's server."""


class OutOfOrderError(InfrastructureError):
    """Not asked, since it failed again and again."""

    def __init__(self, name: str, after_s: float) -> None:
        super().__init__("server", f"{name} is out of order, and will be tried again in {after_s:.0f} s")


class CircuitBreaker:
    """Opens after some failures in a row; after a rest one request may try, and what becomes of it closes or opens it.

    Args:
        failures: in a row.
        rest_s: seconds until a trial.
        clock: seconds.
    """

    def __init__(self, failures: int, rest_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._most = failures
        self._rest_s = rest_s
        self._clock = clock
        self._failures, self._opened_at, self._is_tried = 0, 0.0, False

    @property
    def is_open(self) -> bool:
        """Whether a request would be refused now."""
        return self._failures >= self._most and (self._is_tried or self.seconds_left > 0)

    @property
    def seconds_left(self) -> float:
        """Until a trial."""
        return max(0.0, self._opened_at + self._rest_s - self._clock())

    def enter(self, name: str) -> None:
        """Let a request through; `failed`, `left` or `heard` follows.

        Raises:
            OutOfOrderError: it is open.
        """
        if self.is_open:
            raise OutOfOrderError(name, self.seconds_left)
        self._is_tried = self._failures >= self._most

    def left(self) -> None:
        """Nobody knows what would have become of the request."""
        self._is_tried = False

    def failed(self) -> None:
        self._failures, self._is_tried = self._failures + 1, False
        if self._failures >= self._most:
            self._opened_at = self._clock()

    def heard(self, error: BaseException | None) -> None:
        """A request ended so."""
        if isinstance(error, InfrastructureError) and error.kind not in _NOBODYS:
            self.failed()
        elif isinstance(error, InfrastructureError) or (error is not None and not isinstance(error, Exception)):
            self.left()
        else:
            self._failures, self._is_tried = 0, False
