"""The cage inside bubblewrap: every process has its own process ids, and every attempt a scratch disk of its own."""

from __future__ import annotations

import fcntl
import os
import resource
import signal
import socket
import struct
from collections.abc import Callable, Iterable
from typing import Any

from . import FIRST_UID, census, seccomp
from .cage import Cage, limit
from .system import (
    CLONE_NEWIPC,
    CLONE_NEWNET,
    CLONE_NEWNS,
    CLONE_NEWPID,
    MS_BIND,
    MS_NODEV,
    MS_NOEXEC,
    MS_NOSUID,
    MS_RDONLY,
    MS_REC,
    MS_REMOUNT,
    PR_SET_PDEATHSIG,
    mount,
    prctl,
    setns,
    unmount,
    unshare,
)

_INODES = 4096
_SHARED_MEMORY = "/dev/shm"
_TMP = "/tmp"
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP = 0x8913, 0x8914, 1


class NamespaceCage(Cage):
    """A program's processes can see, signal and reach themselves, their scratch disk and read-only files, no more.

    Killing the first process of a pid namespace ends all that it ever started. Where the fork server is root, the
    programs of each slot run under a user id of their own; elsewhere, under the server's.

    Args:
        scratch: folder over which each attempt's disk is mounted.
        slot: number of the slot, and `slots` how many there are.

    Raises:
        OSError: the system does not allow this.
    """

    counts_processes = True

    def __init__(self, scratch: str, slot: int, slots: int) -> None:
        super().__init__(scratch)
        self.workdir = scratch
        self._uid = FIRST_UID + slot if os.getuid() == 0 else None
        self._slots = slots
        seccomp.make_filter()
        self._own_pids = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
        unshare(CLONE_NEWNS | CLONE_NEWIPC)
        self._in_tmp = [] if os.path.islink(_TMP) else [(name, _open_folder(name)) for name in os.listdir(_TMP)]
        self._disks = [scratch, _SHARED_MEMORY, *([_TMP] if self._in_tmp else [])]
        self._mounted: dict[str, tuple[Any, ...]] = {}
        self._has_network = False

    def open(self) -> None:
        """Nothing yet: disks are made where limits are known, and kept while nobody has used them."""

    def close(self, pids: list[int]) -> None:
        ended = census.end_all(pids)
        if self._mounted and any(_state(disk) != state for disk, state in self._mounted.items()):
            for disk in reversed(self._disks):
                unmount(disk)
            self._mounted = {}
        self._has_network = False
        self._forget()
        if not ended:
            raise RuntimeError("processes of the program could not be ended")

    def fork(
        self, body: Callable[[], Any], keep: Iterable[int], limits: dict[str, Any], *, trusted: bool = False
    ) -> int:
        if not self._has_network:
            unshare(CLONE_NEWNET)  # a program must not find ports that the one before it used
            _start_loopback()
            self._has_network = True
        if not self._mounted:
            self._mount_disks(f"size={limits['file_mb']}m,nr_inodes={_INODES},mode=1777")
        self._hides_processes = not trusted
        unshare(CLONE_NEWPID)
        try:
            return super().fork(body, keep, limits)
        finally:
            setns(self._own_pids, CLONE_NEWPID)

    def _mount_disks(self, options: str) -> None:
        """Empty disks; /tmp has one where the interpreter lies in it, which then stays there."""
        for disk in self._disks:
            mount(
                "scratch", disk, "tmpfs", MS_NOSUID | MS_NODEV | (MS_NOEXEC if disk == _SHARED_MEMORY else 0), options
            )
        for name, descriptor in self._in_tmp:
            os.mkdir(f"{_TMP}/{name}", 0o755)
            mount(f"/proc/self/fd/{descriptor}", f"{_TMP}/{name}", None, MS_BIND | MS_REC)
        self._mounted = {disk: _state(disk) for disk in self._disks}

    def _confine(self, limits: dict[str, Any]) -> None:
        if self._hides_processes:
            unshare(CLONE_NEWNS)
            mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC)
            mount("/proc/sys", "/proc/sys", None, MS_BIND)
            mount("", "/proc/sys", None, MS_BIND | MS_REMOUNT | MS_RDONLY | MS_NOSUID | MS_NODEV | MS_NOEXEC)
        # Without user ids of their own, the processes of all slots and the server's count together.
        own = 1 if self._uid is not None else self._slots
        limit(resource.RLIMIT_NPROC, limits["processes"] * own + 2 * self._slots + 4)
        if self._uid is not None:
            os.setgroups([])
            os.setresgid(self._uid, self._uid, self._uid)
            os.setresuid(self._uid, self._uid, self._uid)
            prctl(PR_SET_PDEATHSIG, signal.SIGKILL)  # a change of user clears it
        super()._confine(limits)
        seccomp.refuse_dangerous_calls()


def _open_folder(name: str) -> int:
    return os.open(f"{_TMP}/{name}", os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)


def _state(disk: str) -> tuple[Any, ...]:
    """What a program changes that leaves something on a disk."""
    status = os.stat(disk)
    return os.listdir(disk), os.listxattr(disk), status.st_mode, status.st_uid, status.st_gid


def _start_loopback() -> None:
    name = struct.pack("16sH14x", b"lo", 0)
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        flags = struct.unpack("16sH14x", fcntl.ioctl(control, _SIOCGIFFLAGS, name))[1]
        fcntl.ioctl(control, _SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", flags | _IFF_UP))
