"""Memory that a process may still take."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psutil

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
