"""What a forked process gives up before it runs anything that is not ours."""

from __future__ import annotations

import ctypes
import os
import random
import resource
import signal
import sys
from collections.abc import Callable, Iterable
from typing import Any, NoReturn

_LIBC = ctypes.CDLL(None, use_errno=True)
_PR_SET_PDEATHSIG, _PR_SET_DUMPABLE, _PR_SET_NO_NEW_PRIVS = 1, 4, 38
_CAPABILITY_VERSION_3 = 0x20080522


def prctl(option: int, value: int) -> None:
    if _LIBC.prctl(option, *map(ctypes.c_ulong, (value, 0, 0, 0))) != 0:
        raise OSError(ctypes.get_errno(), f"prctl({option})")


def hide_memory() -> None:
    """No process without CAP_SYS_PTRACE can trace this one or its forks, or open their descriptors through /proc."""
    if sys.platform == "linux":
        prctl(_PR_SET_DUMPABLE, 0)


def die_with_parent(parent: int) -> None:
    """SIGKILL this process when `parent` ends (Linux)."""
    if sys.platform == "linux":
        prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(0)


def fork(body: Callable[[], Any], keep: Iterable[int]) -> int:
    """Fork a process that runs `body` in a session of its own, with no descriptor but 0-2 and `keep`; gives its id."""
    parent = os.getpid()
    pid = os.fork()
    if pid:
        return pid
    _child(body, keep, parent)


def _child(body: Callable[[], Any], keep: Iterable[int], parent: int) -> NoReturn:
    code = 70
    try:
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.setsid()
        die_with_parent(parent)
        start = 3
        for descriptor in sorted(keep):
            os.closerange(start, descriptor)
            start = descriptor + 1
        os.closerange(start, _max_descriptors())
        body()
        code = 0
    finally:
        os._exit(code)


def _max_descriptors() -> int:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return 65536 if soft == resource.RLIM_INFINITY else min(soft, 65536)


def confine(workdir: str, limits: dict[str, Any]) -> None:
    """Resource limits, an own working directory, and no privileges; cannot be undone by this process."""
    os.chdir(workdir)
    os.umask(0o077)
    os.environ.update(HOME=workdir, TMPDIR=workdir, PWD=workdir)
    sys.argv = ["solution.py"]
    random.seed(0)
    megabyte = 1 << 20
    seconds = int(limits["wall_s"]) + 2
    _limit(resource.RLIMIT_CORE, 0)
    _limit(resource.RLIMIT_CPU, seconds)
    _limit(resource.RLIMIT_FSIZE, limits["file_mb"] * megabyte)
    _limit(resource.RLIMIT_NOFILE, limits["open_files"])
    if sys.platform == "linux":
        _limit(resource.RLIMIT_AS, _address_space() + limits["memory_mb"] * megabyte)
        _drop_privileges()


def _limit(which: int, value: int) -> None:
    _, hard = resource.getrlimit(which)
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    resource.setrlimit(which, (value, value))


def _address_space() -> int:
    with open("/proc/self/statm") as file:
        return int(file.read().split()[0]) * os.sysconf("SC_PAGE_SIZE")


def _drop_privileges() -> None:
    """Give up all capabilities, for good, so that being root means owning root's files and nothing more."""
    prctl(_PR_SET_NO_NEW_PRIVS, 1)
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    nothing = (ctypes.c_uint32 * 6)()
    if _LIBC.capset(header, nothing) != 0:
        raise OSError(ctypes.get_errno(), "capset")
