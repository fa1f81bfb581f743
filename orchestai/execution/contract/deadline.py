"""The deadline of a contract that was not kept."""

from __future__ import annotations

import time

from orchestai.config import Contract
from orchestai.execution.contract.trimming import ContractError
from orchestai.execution.result import Execution


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
    """The deadline came before there was an answer, or before it was whole where `on_deadline` is `error`."""


def require_whole(execution: Execution, contract: Contract) -> None:
    """Refuse a part of the answer where the contract wants the whole.

    Raises:
        DeadlineError: the deadline came before all steps were done.
    """
    if execution.partial and contract.on_deadline == "error":
        done = sum(result.status == "done" for result in execution.results)
        raise DeadlineError(
            f"deadline_s={contract.deadline_s:g}: {done} of {len(execution.workflow)} steps were done; "
            "allow more time, or take what there is with on_deadline=partial"
        )
