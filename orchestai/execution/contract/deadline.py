"""The deadline of a contract that was not kept."""

from __future__ import annotations

import time

from orchestai.execution.contract.trimming import ContractError


class Clock:
    """Begins when it is made.

    Args:
        limit_s: seconds until the deadline; None is none.

    Attributes:
        deadline: on the clock of `time.monotonic`; None without a limit.
    """

    def __init__(self, limit_s: float | None = None) -> None:
        self._began = time.monotonic()
        self.deadline = None if limit_s is None else self._began + limit_s

    def seconds_left(self) -> float | None:
        """None without a limit."""
        return None if self.deadline is None else max(0.0, self.deadline - time.monotonic())

    @staticmethod
    def now() -> float:
        """On the clock of the deadline."""
        return time.monotonic()

    def milliseconds(self) -> float:
        """Since the beginning."""
        return (time.monotonic() - self._began) * 1000


class DeadlineError(ContractError):
    """The deadline came before there was an answer."""
