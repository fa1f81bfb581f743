"""SIGTERM and Ctrl-C while training: finish the present update, save, and end so that a resumed run loses nothing."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any

from orchestai.interrupts import note_interrupt


class StopSignals:
    """Notes the first SIGTERM or Ctrl-C; a further one does what it did before. A context manager.

    Outside the main thread, where signals cannot be handled, it does nothing.

    Args:
        say: tells people that the signal was heard.

    Attributes:
        received: the signal, if one came.
    """

    def __init__(self, say: Callable[[str], None]) -> None:
        self.received: signal.Signals | None = None
        self._say = say
        self._before: dict[signal.Signals, Any] = {}

    def __enter__(self) -> StopSignals:
        if threading.current_thread() is threading.main_thread():
            for number in (signal.SIGTERM, signal.SIGINT):
                self._before[number] = signal.signal(number, self._note)
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, tb: TracebackType | None) -> None:
        self._restore()

    def _note(self, number: int, frame: FrameType | None) -> None:
        self._restore()
        self.received = note_interrupt(number)
        self._say(f"{self.received.name}: the present update is finished and saved; once more stops at once")

    def _restore(self) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before.clear()
