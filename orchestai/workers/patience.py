"""Until when an answer is of use to whoever asks a worker: nobody waits longer before another try."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

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
