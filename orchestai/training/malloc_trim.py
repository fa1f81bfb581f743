"""Memory that a process has freed, given back to the system."""

from __future__ import annotations

import ctypes
import sys
from typing import Any

from orchestai.sandbox.inside.jail.processes import resident_bytes

_SLACK = 1 << 30


def trim() -> None:
    """Give all freed memory back, where the system can take it (Linux with glibc)."""
    library: Any = ctypes.CDLL(None) if sys.platform == "linux" else None
    if (malloc_trim := getattr(library, "malloc_trim", None)) is not None:
        malloc_trim(0)


class FreedMemory:
    """Keeps a process that trains on a CPU from holding much more memory than it needs (Linux with glibc).

    Batches of ever different lengths leave blocks of ever different sizes. glibc keeps those that lie between others in
    use, and so a process that needs one GB comes to hold ten within an hour. They are given back whenever it holds a
    GiB more than a step needed right after the last time: where what the next step asks for again was given back, a
    language model's training spent over a fifth of its time in the kernel.
    """

    def __init__(self) -> None:
        self._least = resident_bytes()
        self._needed = 0
        self._is_trimmed = True

    def give_back(self) -> None:
        """To be called after every step."""
        grown = resident_bytes() - self._least
        if self._is_trimmed:
            self._needed = max(grown, self._needed)
            self._is_trimmed = False
        elif grown > self._needed + _SLACK:
            trim()
            self._least = resident_bytes()
            self._is_trimmed = True
