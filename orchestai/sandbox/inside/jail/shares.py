"""CPU shares: however many processes and threads a program has, together they weigh as much as one process (Linux).

So they do not slow down the program of another slot more than one process would. Two things decide how the kernel
shares cores where there are no control groups: the niceness of each thread, and, where it groups by session
(`sched_autogroup_enabled`), the niceness of the group. It takes a while to see whom to make nicer, and programs may end
and come again sooner than that; so one that wants more cores than there are is kept on one, with whatever watches it.
"""

from __future__ import annotations

import math
import os
from contextlib import suppress

_LEVEL = 1.25
"""How much more a thread weighs than one that is nicer by 1."""
_NICEST = 19


class Shares:
    """Of the program of one attempt.

    Args:
        pids: its first processes; each leads a session of its own. They and their children cannot choose their cores.
        spared: one of them that outlasts the program, and is left as it is: niceness cannot be taken back everywhere.
    """

    def __init__(self, pids: list[int], spared: int | None = None) -> None:
        self._sessions = set(pids)
        self._spared = spared
        self._nice = 0
        self._cores: set[int] = set()

    def balance(self, living: list[int]) -> None:
        """Make all threads of these processes so nice that those which want to run weigh as one together, and the same
        for the sessions that the program has made."""
        threads = [(pid, thread) for pid in living if pid != self._spared for thread in _threads(pid)]
        facts = {thread: fact for pid, thread in threads if (fact := _state_and_session(pid, thread)) is not None}
        running = [(thread, session) for thread, (state, session) in facts.items() if state == b"R"]
        nice = max(_niceness(len(running)), self._nice - 1)  # by and by: they may rest whenever they are looked at
        if nice or self._nice:
            for thread in facts:
                with suppress(OSError):
                    os.setpriority(os.PRIO_PROCESS, thread, nice)
        self._nice = nice
        groups = {session: thread for thread, session in running if session not in self._sessions}
        cores = self._cores or os.sched_getaffinity(0)  # those that this process had before it was kept on one
        if len(groups) > 1 or len(running) > len(cores):
            self._cores = cores
            core = sorted(self._cores)[os.getpid() % len(self._cores)]
            for thread in (os.getpid(), *facts):
                with suppress(OSError):
                    os.sched_setaffinity(thread, {core})
        for thread in groups.values() if len(groups) > 1 else ():  # the kernel may want us to come again
            with suppress(OSError), open(f"/proc/{thread}/autogroup", "wb", buffering=0) as file:
                file.write(b"%d" % _niceness(len(groups)))

    def close(self) -> None:
        """Let this process run wherever it may again."""
        if self._cores:
            os.sched_setaffinity(0, self._cores)


def _niceness(count: int) -> int:
    """With which so many weigh as one."""
    return min(_NICEST, math.ceil(math.log(max(count, 1), _LEVEL)))


def _threads(pid: int) -> list[int]:
    try:
        return [int(thread) for thread in os.listdir(f"/proc/{pid}/task")]
    except OSError:
        return []


def _state_and_session(pid: int, thread: int) -> tuple[bytes, int] | None:
    with suppress(OSError, ValueError), open(f"/proc/{pid}/task/{thread}/stat", "rb", buffering=0) as file:
        fields = file.read().rpartition(b")")[2].split()
        return fields[0], int(fields[3])
    return None
