"""Memory that a process may still take."""

from __future__ import annotations

from pathlib import Path

import psutil

_CONTROL_GROUPS = Path("/sys/fs/cgroup")
_LIMITS = (("memory.max", "memory.current"), ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"))
"""Of a control group and what it uses; those of version 2, then 1."""


def free_bytes(control_groups: Path = _CONTROL_GROUPS) -> int:
    """What the system can give without swapping, or what a container's limit leaves of it."""
    free: int = psutil.virtual_memory().available
    for limit, usage in _LIMITS:
        allowed, used = _number(control_groups / limit), _number(control_groups / usage)
        if allowed is not None and used is not None:
            free = min(free, max(allowed - used, 0))
    return free


def _number(path: Path) -> int | None:
    """None where there is no such file, or no limit ("max")."""
    try:
        return int(path.read_text())
    except (OSError, ValueError):
        return None
