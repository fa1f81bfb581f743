"""What one attempt may spend: turns, tokens and time; and who is to blame where time runs out."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from orchestai.config.agents import BudgetConfig
from orchestai.errors import InfrastructureError

T = TypeVar("T")


class BudgetExceededError(Exception):
    """An attempt has no turns, tokens, time or context left; the message says which. It ends, and is worth nothing."""


class Budget:
    """What is left to one attempt. Without limits, all that it wants.

    Args:
        clock: seconds from any beginning.
    """

    def __init__(self, limits: BudgetConfig | None = None, clock: Callable[[], float] = time.monotonic) -> None:
        self._limits = limits or BudgetConfig()
        self._clock = clock
        self._began = clock()
        self._turns = 0
        self._tokens = 0
        self._calls = 0
        self._calls_s = 0.0

    def open_turn(self, max_new_tokens: int | None) -> int | None:
        """Take a turn. Gives the most tokens that it may have, None where nothing limits them.

        Raises:
            BudgetExceededError: no turn or token is left, or calls have taken too long.
            InfrastructureError: time is over, but not by the fault of those who act.
        """
        limits = self._limits
        if limits.turns is not None and self._turns >= limits.turns:
            raise BudgetExceededError(f"no turn is left of {limits.turns} (agents.budget.turns)")
        if limits.tokens is not None and self._tokens >= limits.tokens:
            raise BudgetExceededError(f"no token is left of {limits.tokens} (agents.budget.tokens)")
        if limits.timeout_s is not None and self._passed > limits.timeout_s:
            raise self._out_of_time(limits.timeout_s)
        self._turns += 1
        left = None if limits.tokens is None else limits.tokens - self._tokens
        return min((limit for limit in (left, max_new_tokens) if limit is not None), default=None)

    def pay(self, tokens: int) -> None:
        """Count tokens as written."""
        self._tokens += tokens

    @contextmanager
    def calling(self) -> Iterator[None]:
        """Count the time of the block as that of calls which a role made; what overlaps counts once."""
        if not self._calls:
            self._calls_s -= self._clock()
        self._calls += 1
        try:
            yield
        finally:
            self._calls -= 1
            if not self._calls:
                self._calls_s += self._clock()

    async def wait(self, work: Awaitable[T]) -> T:
        """The result of `work` of ours, if it comes in time.

        Raises:
            BudgetExceededError, InfrastructureError: it did not, and is cancelled; see `open_turn`.
        """
        limit = self._limits.timeout_s
        if limit is None:
            return await work
        task = asyncio.ensure_future(work)
        try:
            await asyncio.wait({task}, timeout=max(limit - self._passed, 0))
            if task.done():
                return task.result()
            raise self._out_of_time(limit)
        finally:
            task.cancel()

    @property
    def _passed(self) -> float:
        return self._clock() - self._began

    def _out_of_time(self, limit: float) -> Exception:
        calls = self._calls_s + (self._clock() if self._calls else 0.0)
        spent = f"{self._passed:.1f} s passed, {calls:.1f} s of them in calls of tools"
        if calls > limit:
            return BudgetExceededError(f"{spent}, of {limit:g} (agents.budget.timeout_s)")
        return InfrastructureError(
            "timeout",
            f"{spent}; the rest was waiting for models: raise agents.budget.timeout_s, or make fewer attempts at a "
            "time",
        )
