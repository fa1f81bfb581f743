"""Memory that a process may still take, and memory that it has freed, given back to the system."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil

from orchestai.sandbox.inside.jail.processes import resident_bytes

_OWN_GROUPS = Path("/proc/self/cgroup")
_MOUNTED = Path("/sys/fs/cgroup")
_LIMITS = (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes"))
"""Of a control group and what it uses, in versions 2 and 1."""


def free_bytes(own_groups: Path = _OWN_GROUPS, mounted: Path = _MOUNTED) -> int:
    """What the system can give without swapping, or what the limits of a container, job or slice leave of it."""
    free: int = psutil.virtual_memory().available
    for group in _groups(own_groups, mounted):
        for limit, usage in _LIMITS:
            allowed, used = _number(group / limit), _number(group / usage)
            if allowed is not None and used is not None:
                free = min(free, max(allowed - used, 0))
    return free


def _groups(own_groups: Path, mounted: Path) -> Iterator[Path]:
    """The folders of the process's control groups, and of those around them, as far as they can be seen here."""
    try:
        lines = own_groups.read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, controllers, name = line.split(":", 2)
        if controllers in ("", "memory"):
            root = mounted / controllers
            group = root / name.lstrip("/")
            yield from (group, *(one for one in group.parents if one.is_relative_to(root)))


def _number(path: Path) -> int | None:
    """None where there is no such file, or no limit ("max")."""
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None


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
