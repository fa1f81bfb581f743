"""What this process uses."""

from __future__ import annotations

import resource
import sys
import time


class Meter:
    """Call it for the CPU seconds of this process, and the most bytes it held beyond those held at first."""

    def __init__(self) -> None:
        self._unit = 1 if sys.platform == "darwin" else 1024
        self._at_first = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

    def __call__(self) -> tuple[float, int]:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return time.process_time(), (peak - self._at_first) * self._unit
