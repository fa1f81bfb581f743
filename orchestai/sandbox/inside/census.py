"""Which processes a program has, how much memory they hold, and how all of them are ended."""

from __future__ import annotations

import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path

from .system import prctl

_NOBODY_ELSE_S = 0.001
"""Whoever still lives after a pause of this length is in none of the groups that were killed."""


def descendants(root: int) -> list[int]:
    """Living children of `root`, their children, and so on; empty where /proc does not tell."""
    found: list[int] = []
    queue = [root]
    while queue:
        threads = f"/proc/{queue.pop()}/task"
        with suppress(OSError):
            for thread in os.listdir(threads):
                with suppress(OSError):
                    pids = [int(pid) for pid in Path(f"{threads}/{thread}/children").read_text().split()]
                    found += pids
                    queue += pids
    return found


def own_bytes(pids: list[int]) -> int:
    """Memory that these forks of this process hold beyond what they had from it, roughly (Linux)."""
    inherited = _anonymous_bytes(os.getpid())
    return sum(max(0, _anonymous_bytes(pid) - inherited) for pid in pids)


def waited_s(pids: list[int]) -> float:
    """Seconds for which these processes were ready to run but had no core, for others than this process's descendants.

    Of their main threads (Linux; else 0).
    """
    ran: dict[int, int] = {}
    waited: dict[int, int] = {}
    for pid in descendants(os.getpid()):
        with suppress(OSError, ValueError):
            ran[pid], waited[pid], _ = map(int, Path(f"/proc/{pid}/schedstat").read_text().split())
    total = sum(ran.values())
    return sum(max(0, waited[pid] - (total - ran[pid])) for pid in pids if pid in ran) / 1e9


def _anonymous_bytes(pid: int) -> int:
    """Memory without a file behind it, shared memory included."""
    with suppress(OSError):
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        return sum(int(line.split()[1]) << 10 for line in lines if line.startswith(("RssAnon:", "RssShmem:")))
    return 0


def become_reaper() -> None:
    """Orphaned descendants become children of this process (Linux), so that none escapes `end_all`."""
    if sys.platform == "linux":
        prctl(36, 1)  # PR_SET_CHILD_SUBREAPER


def end_all(groups: list[int], patience_s: float = 5.0) -> bool:
    """Kill the process groups and every descendant of this process, and reap them.

    Returns False if some could not be ended within `patience_s`.
    """
    for group in groups:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)
    give_up = time.monotonic() + patience_s
    pause = 0.0002
    while time.monotonic() < give_up:
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return True
        if pause > _NOBODY_ELSE_S:
            for pid in descendants(os.getpid()) or groups:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
        time.sleep(pause)
        pause = min(pause * 2, 0.02)
    return False
