"""Memory that a process has freed, given back to the system."""

from __future__ import annotations

import ctypes
import sys
from typing import Any

from orchestai.sandbox.inside.jail.processes import resident_bytes

_STEP = 1 << 30


class FreedMemory:
    """Keeps a process that trains on a CPU from holding much more memory than it needs (Linux with glibc).

    Batches of ever different lengths leave blocks of ever different sizes. glibc keeps those that lie between others in
    use, and so a process that needs one GB comes to hold ten within an hour. They are given back whenever it has grown
    by another GiB: at every step, that and asking for them again would take a fiftieth of the time.
    """

    def __init__(self) -> None:
        library: Any = ctypes.CDLL(None) if sys.platform == "linux" else None
        self._trim = getattr(library, "malloc_trim", None)
        self._least = resident_bytes()

    def give_back(self) -> None:
        """To be called after every step."""
        if self._trim is not None and resident_bytes() > self._least + _STEP:
            self._trim(0)
            self._least = resident_bytes()
