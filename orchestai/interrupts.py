"""Ctrl-C and SIGTERM: both raise `KeyboardInterrupt`, and a command may promise to be gone some seconds later."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from types import FrameType

_received: list[signal.Signals] = []
_leave_after_s: list[float] = []


def heed_interrupts() -> None:
    """Let both signals interrupt this process; outside the main thread, where none can be handled, do nothing.

    Shells start the background jobs of scripts with Ctrl-C ignored, which Python keeps unless told otherwise.
    """

    def interrupt(number: int, frame: FrameType | None) -> None:
        note_interrupt(number)
        raise KeyboardInterrupt

    if threading.current_thread() is threading.main_thread():
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, interrupt)


def leave_after(seconds: float) -> None:
    """End the process so many seconds after a signal, if it still runs then: what it waits for may take longer."""
    _leave_after_s[:] = [seconds]


def note_interrupt(number: int) -> signal.Signals:
    """A signal came; whoever handles it otherwise than by `heed_interrupts` says so, too."""

    def leave(seconds: float) -> None:
        time.sleep(seconds)
        sys.stderr.flush()
        os._exit(128 + number)

    _received[:] = [signal.Signals(number)]
    for seconds in _leave_after_s:
        threading.Thread(target=leave, args=(seconds,), name="leave", daemon=True).start()
    return _received[0]


def interrupted_by() -> signal.Signals:
    """The signal that came last; Ctrl-C where none was noted."""
    return _received[0] if _received else signal.SIGINT
