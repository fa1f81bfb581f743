"""What a program's processes are held in: resource limits, no privileges and a folder of their own, on any system."""

from __future__ import annotations

import os
import random
import resource
import shutil
import signal
import sys
import tempfile
from collections.abc import Callable, Iterable
from typing import Any, NoReturn

from . import census

if sys.platform == "linux":
    from .system import PR_SET_DUMPABLE, PR_SET_PDEATHSIG, drop_capabilities, prctl


class Cage:
    """Holds the processes of one attempt at a time, with limits alone: they see the host's files and processes.

    Args:
        home: folder in which each attempt gets one of its own.
    """

    counts_processes = False
    """Whether the system itself refuses a program more processes than it may have."""

    def __init__(self, home: str) -> None:
        self._home = home
        self._confined: list[int] = []
        self.workdir = ""

    def open(self) -> None:
        """Make an empty folder for the next attempt."""
        self.workdir = tempfile.mkdtemp(dir=self._home)

    def close(self, pids: list[int]) -> None:
        """End the attempt's processes and all that they started, and remove what they wrote.

        Raises:
            RuntimeError: some process could not be ended.
        """
        try:
            if not census.end_all(pids):
                raise RuntimeError("processes of the program could not be ended")
        finally:
            shutil.rmtree(self.workdir, ignore_errors=True)
            self._forget()

    def check(self) -> None:
        """Make sure that no process of the attempt ended before it was confined: the program is not to blame for that.

        Raises:
            RuntimeError: one did.
        """
        for descriptor in self._confined:
            if not os.read(descriptor, 1):
                raise RuntimeError("a process could not be confined")
        self._forget()

    def _forget(self) -> None:
        for descriptor in self._confined:
            os.close(descriptor)
        self._confined.clear()

    def fork(
        self, body: Callable[[], Any], keep: Iterable[int], limits: dict[str, Any], *, trusted: bool = False
    ) -> int:
        """Fork a confined process that runs `body` with no descriptor but 0-2 and `keep`; gives its id.

        Args:
            trusted: it runs no code of the program, so it need not be kept from the other processes here.

        Raises:
            OSError: there are no resources for another process.
        """
        parent = os.getpid()
        read, write = os.pipe()
        self._confined.append(read)
        try:
            pid = os.fork()
            if pid == 0:
                self._run(body, keep, limits, parent, write)
            return pid
        finally:
            os.close(write)

    def _run(
        self, body: Callable[[], Any], keep: Iterable[int], limits: dict[str, Any], parent: int, confined: int
    ) -> NoReturn:
        code = 70
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            os.setsid()
            die_with_parent(parent)
            start = 3
            for descriptor in sorted([*keep, confined]):
                os.closerange(start, descriptor)
                start = descriptor + 1
            os.closerange(start, _max_descriptors())
            self._confine(limits)
            os.write(confined, b"1")
            os.close(confined)
            body()
            code = 0
        finally:
            os._exit(code)

    def _confine(self, limits: dict[str, Any]) -> None:
        """Take from this process what it must not have; it cannot undo that."""
        os.chdir(self.workdir)
        os.umask(0o077)
        os.environ.update(HOME=self.workdir, TMPDIR=self.workdir, PWD=self.workdir)
        sys.argv = ["solution.py"]
        random.seed(0)
        _set_limits(limits)
        if sys.platform == "linux":
            drop_capabilities()


def hide_memory() -> None:
    """No process without CAP_SYS_PTRACE can trace this one or its forks, or open their descriptors through /proc."""
    if sys.platform == "linux":
        prctl(PR_SET_DUMPABLE, 0)


def die_with_parent(parent: int) -> None:
    """SIGKILL this process when `parent` ends (Linux). A parent outside of our pid namespace has the id 0."""
    if sys.platform == "linux":
        prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() not in (parent, 0):
        os._exit(0)


def _max_descriptors() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 65536 if soft == resource.RLIM_INFINITY else min(soft, 65536)


def _set_limits(limits: dict[str, Any]) -> None:
    megabyte = 1 << 20
    limit(resource.RLIMIT_CORE, 0)
    limit(resource.RLIMIT_CPU, int(limits["wall_s"]) + 2)
    limit(resource.RLIMIT_FSIZE, limits["file_mb"] * megabyte)
    limit(resource.RLIMIT_NOFILE, limits["open_files"])
    if sys.platform == "linux":
        limit(resource.RLIMIT_AS, _address_space() + limits["memory_mb"] * megabyte)


def limit(which: int, value: int) -> None:
    """Lower a resource limit of this process to at most `value`."""
    _, hard = resource.getrlimit(which)
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    resource.setrlimit(which, (value, value))


def _address_space() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")
