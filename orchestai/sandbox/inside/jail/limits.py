"""The jail of a program: resource limits, no privileges and a folder of their own, on any system."""

from __future__ import annotations

import os
import resource
import signal
import sys
from collections.abc import Callable, Iterable
from typing import Any, NoReturn

from . import processes
from .processes import Usage

if sys.platform == "linux":
    from . import system

_MEGABYTE = 1 << 20


class Jail:
    """Holds the processes of one attempt at a time, with limits alone: they see the host's files and processes.

    What this process, a slot, can do without itself is taken from it at once, and its forks inherit that: the less a
    fork has to do, the fewer pages are copied for it.

    Args:
        home: folder in which each attempt gets one of its own.
        limits: see `orchestai.sandbox.Limits`.

    Attributes:
        in_namespaces: the system itself refuses a program more processes than it may have; nothing in here can kill the
            first processes (one that was killed was killed from outside).
        keeps_tests: programs cannot see the process that runs their tests, so that the next one's may run there, too.
    """

    in_namespaces = False
    keeps_tests = False

    def __init__(self, home: str, limits: dict[str, Any]) -> None:
        self._home = home
        self._limits = limits
        self._confined: list[int] = []
        self._workdir = ""
        sys.argv = ["solution.py"]
        os.umask(0o077)
        soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
        self._descriptors = 65536 if soft == resource.RLIM_INFINITY else min(soft, 65536)
        limit(resource.RLIMIT_CORE, 0)
        limit(resource.RLIMIT_FSIZE, limits["file_mb"] * _MEGABYTE)
        limit(resource.RLIMIT_NOFILE, limits["open_files"])
        if sys.platform == "linux":
            system.prctl(system.PR_SET_CHILD_SUBREAPER, 1)  # it gets orphans, so that none escapes `end`
            own = int(processes.read_line("/proc/self/statm").split()[0]) * os.sysconf("SC_PAGE_SIZE")
            limit(resource.RLIMIT_AS, own + limits["memory_mb"] * _MEGABYTE)
            system.prctl(system.PR_SET_NO_NEW_PRIVS, 1)

    def open(self, own_sockets: int = 0) -> bool:
        """Go to an empty folder, in which the next attempt's processes will be; whether that is another than before.

        Args:
            own_sockets: that this process and those that it keeps have open since the call before.
        """
        import tempfile  # heavy, and not needed in namespaces

        self._settle(tempfile.mkdtemp(dir=self._home))
        return True

    def _settle(self, workdir: str) -> None:
        self._workdir = workdir
        os.chdir(workdir)
        os.environ.update(HOME=workdir, TMPDIR=workdir, PWD=workdir)

    def end(self, pids: list[int]) -> dict[int, Usage]:
        """End the processes and all that they started, and remove what they wrote; what each of `pids` used. Raises
        RuntimeError: some process could not be ended."""
        self._forget()
        try:
            return processes.end_all(pids)
        finally:
            import shutil  # heavy as well

            os.chdir(self._home)
            shutil.rmtree(self._workdir, ignore_errors=True)

    def hold(self, pid: int) -> None:
        """Keep until the next `open` what a process would otherwise have to take down before it has ended."""

    def kernel_bytes(self) -> int:
        """Memory that the kernel holds for the attempt's processes at most, beside what they hold themselves."""
        return 0

    def check(self) -> None:
        """Make sure that no process of the attempt ended before it was confined: the program is not to blame for
        that. Raises RuntimeError: one did."""
        if not all(os.read(descriptor, 1) for descriptor in self._confined):
            raise RuntimeError("a process could not be confined")
        self._forget()

    def _forget(self) -> None:
        while self._confined:
            os.close(self._confined.pop())

    def fork(self, body: Callable[[], Any], keep: Iterable[int], *, trusted: bool = False) -> int:
        """Fork a confined process that runs `body` with no descriptor but 0-2 and `keep`; gives its id.

        Args:
            trusted: it runs no code of the program, and may have a home that no other process sees.

        Raises:
            OSError: there are no resources for another process.
        """
        parent = os.getpid()
        read, write = os.pipe()
        self._confined.append(read)
        try:
            pid = os.fork()
            if pid == 0:
                self._run(body, keep, parent, write)
            return pid
        finally:
            os.close(write)

    def _run(self, body: Callable[[], Any], keep: Iterable[int], parent: int, confined: int) -> NoReturn:
        code = 70
        try:
            os.setsid()
            die_with_parent(parent)
            start = 3
            for descriptor in (*sorted([*keep, confined]), self._descriptors):
                os.closerange(start, descriptor)
                start = descriptor + 1
            self._confine()
            os.write(confined, b"1")
            os.close(confined)
            body()
            code = 0
        finally:
            os._exit(code)

    def _confine(self) -> None:
        """Take from this process what it must not have and what its slot needs; it cannot undo that."""
        limit(resource.RLIMIT_CPU, int(self._limits["wall_s"]) + 2)
        if sys.platform == "linux":
            system.drop_capabilities()


def die_with_parent(parent: int) -> None:
    """SIGKILL this process when `parent` ends (Linux). A parent outside of our pid namespace has the id 0."""
    if sys.platform == "linux":
        system.prctl(system.PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() not in (parent, 0):
        os._exit(0)


def limit(which: int, value: int) -> None:
    """Lower a resource limit of this process to at most `value`."""
    _, hard = resource.getrlimit(which)
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    resource.setrlimit(which, (value, value))
