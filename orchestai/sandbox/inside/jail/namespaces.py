"""The jail inside bubblewrap: every process has its own process ids, and every attempt a scratch disk of its own."""

from __future__ import annotations

import fcntl
import os
import re
import resource
import signal
import socket
import struct
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Any

from . import processes, seccomp, system
from .limits import Jail, limit
from .processes import Usage

_INODES = 4096
_MOST_COUNTS = 1 << 13
OWN_CODE = os.path.dirname(os.path.dirname(__file__))
"""An empty folder for programs; the process that runs tests has a home there that no program can write to."""
_A_FOLDER = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
_SHARED_MEMORY = "/dev/shm"
_TMP = "/tmp"
_TCP_BYTES = b"4096 65536 131072"
"""Least, first and greatest size of a connection's buffers, for each direction."""
_USED = re.compile(rb"^sockets: used (\d+)", re.MULTILINE)
_IN_USE = re.compile(rb"\b(inuse|tw) [1-9]")
_SIOCGIFFLAGS, _SIOCSIFFLAGS, _IFF_UP, _LOOPBACK = 0x8913, 0x8914, 1, struct.pack("16sH14x", b"lo", 0)


class NamespaceJail(Jail):
    """A program's processes can see, signal and reach themselves, their scratch disk and read-only files, no more.

    Killing the first process of a pid namespace ends all that it ever started.

    Args:
        scratch: folder over which each attempt's disk is mounted.
        limits: see `orchestai.sandbox.Limits`.
        uid: user that programs run as; None where the fork server is not root: then they run as its user.
        slots: how many slots the server has.

    Raises:
        OSError: the system does not allow this.
    """

    in_namespaces = True
    keeps_tests = True

    def __init__(self, scratch: str, limits: dict[str, Any], uid: int | None, slots: int) -> None:
        super().__init__(scratch, limits)
        self._uid = uid
        # Without user ids of their own, the processes of all slots and the server's count together.
        own = 1 if uid is not None else slots
        self._most_processes = limits["processes"] * own + 3 * slots + 4
        self._filter = seccomp.Filter(of_slot=False)
        self._own_pids = os.open("/proc/self/ns/pid", os.O_RDONLY | os.O_CLOEXEC)
        self._socket_bytes = processes.socket_bytes()
        system.unshare(system.CLONE_NEWNS | system.CLONE_NEWIPC)
        system.mount("proc", scratch, "proc", system.MS_NO_POWER)  # for a moment
        self._settings = os.open(f"{scratch}/sys", _A_FOLDER)
        """The kernel's settings, of the network in which one of them is opened."""
        system.unmount(scratch)
        system.mount("none", OWN_CODE, "tmpfs", system.MS_RDONLY | system.MS_NO_POWER, "size=4k")  # all of it is loaded
        in_tmp = [] if os.path.islink(_TMP) else os.listdir(_TMP)
        self._in_tmp = [(name, os.open(f"{_TMP}/{name}", _A_FOLDER)) for name in in_tmp]
        self._disks = [scratch, _SHARED_MEMORY, *([_TMP] if self._in_tmp else [])]
        self._mounted: list[tuple[int, int, int]] = []
        self._network: _Network | None = None
        self._held: list[int] = []
        """Mount namespaces of processes: while they are held, nobody waits for their end when a verdict is due."""
        seccomp.Filter(of_slot=True).put_on()

    def open(self, own_sockets: int = 0) -> bool:
        """Have an empty disk and a network without ports: new ones where the attempt before has used its own.

        Whether any of them is new.
        """
        is_new = False
        while self._held:
            os.close(self._held.pop())
        if self._network is None or not self._network.is_as_new(own_sockets):
            if self._network is not None:
                self._network.close()
            system.unshare(system.CLONE_NEWNET)
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:  # starts the loopback
                flags = struct.unpack("16sH14x", fcntl.ioctl(control, _SIOCGIFFLAGS, _LOOPBACK))[1]
                fcntl.ioctl(control, _SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", flags | _IFF_UP))
            for name in ("tcp_rmem", "tcp_wmem"):  # else the kernel makes them larger than those of other sockets
                file = os.open(f"net/ipv4/{name}", os.O_WRONLY | os.O_CLOEXEC, dir_fd=self._settings)
                try:
                    os.write(file, _TCP_BYTES)
                finally:
                    os.close(file)
            self._network = _Network()
            is_new = True
        if not self._disks_are_new():
            if self._mounted:
                os.chdir("/")
                for disk in reversed(self._disks):
                    system.unmount(disk)
            # Empty disks; /tmp has one where the interpreter lies in it, which then stays there.
            options = f"size={self._limits['file_mb']}m,nr_inodes={_INODES},mode=1777"
            for disk in self._disks:
                flags = system.MS_NOSUID | system.MS_NODEV | (system.MS_NOEXEC if disk == _SHARED_MEMORY else 0)
                system.mount("scratch", disk, "tmpfs", flags, options)
            for name, descriptor in self._in_tmp:
                os.mkdir(f"{_TMP}/{name}")
                os.chmod(f"{_TMP}/{name}", 0o755)
                system.mount(f"/proc/self/fd/{descriptor}", f"{_TMP}/{name}", None, system.MS_BIND | system.MS_REC)
            self._mounted = [_state(disk) for disk in self._disks]
            self._settle(self._home)
            is_new = True
        return is_new

    def kernel_bytes(self) -> int:
        return self._socket_bytes * self._network.sockets() if self._network is not None else 0

    def _disks_are_new(self) -> bool:
        """Whether nobody has changed the disks, or made a file on them that is gone again."""
        expected = [(accessed, changed, file + 1) for accessed, changed, file in self._mounted]
        with suppress(OSError):  # a program that owns a disk can forbid us to look
            self._mounted = [_state(disk) for disk in self._disks] if self._mounted else []
            return self._mounted == expected != []
        return False

    def end(self, pids: list[int]) -> dict[int, Usage]:
        self._forget()
        for pid in pids:
            self.hold(pid)
        return processes.end_namespaces(pids)

    def hold(self, pid: int) -> None:
        with suppress(OSError):
            self._held.append(os.open(f"/proc/{pid}/ns/mnt", os.O_RDONLY | os.O_CLOEXEC))

    def fork(self, body: Callable[[], Any], keep: Iterable[int], *, trusted: bool = False) -> int:
        self._has_home = trusted
        system.unshare(system.CLONE_NEWPID)
        try:
            return super().fork(body, keep)
        finally:
            system.setns(self._own_pids, system.CLONE_NEWPID)

    def _confine(self) -> None:
        system.unshare(system.CLONE_NEWNS)
        system.mount("proc", "/proc", "proc", system.MS_NO_POWER)  # tests may start scripts of the program's
        system.mount("/proc/sys", "/proc/sys", None, system.MS_BIND)
        system.mount("", "/proc/sys", None, system.MS_BIND | system.MS_REMOUNT | system.MS_RDONLY | system.MS_NO_POWER)
        if self._has_home:
            system.mount("home", OWN_CODE, "tmpfs", system.MS_NO_POWER, "size=8m,mode=1777")
        limit(resource.RLIMIT_NPROC, self._most_processes)
        if self._uid is not None:
            os.setgroups([])
            os.setresgid(self._uid, self._uid, self._uid)
            os.setresuid(self._uid, self._uid, self._uid)
            system.prctl(system.PR_SET_PDEATHSIG, signal.SIGKILL)  # a change of user clears it
        super()._confine()
        self._filter.put_on()


class _Network:
    """What the kernel tells of this process's network, as it is now. Its files are kept open: they are read often."""

    def __init__(self) -> None:
        self._sockets = _open_counts("sockstat", "sockstat6")
        self._traffic = _open_counts("dev", "snmp", "snmp6", "ip6_flowlabel")
        self._at_first = [_read(file) for file in self._traffic]

    def is_as_new(self, own: int) -> bool:
        """Whether it holds but `own` local sockets, remembers no connection (TIME_WAIT), and nothing was ever sent."""
        for counts in map(_read, self._sockets):
            used = _USED.search(counts)
            if _IN_USE.search(counts) or (used and int(used[1]) != own):
                return False
        return [_read(file) for file in self._traffic] == self._at_first

    def sockets(self) -> int:
        """How many it holds, of all kinds."""
        return sum(int(used[1]) for counts in map(_read, self._sockets) if (used := _USED.search(counts)))

    def close(self) -> None:
        for file in (*self._sockets, *self._traffic):
            os.close(file)


def _open_counts(*names: str) -> list[int]:
    """Those of the files on this network that the kernel has; without IPv6 it has fewer."""
    files = []
    for name in names:
        with suppress(FileNotFoundError):
            files.append(os.open(f"/proc/net/{name}", os.O_RDONLY | os.O_CLOEXEC))
    return files


def _read(file: int) -> bytes:
    return os.pread(file, _MOST_COUNTS, 0)


def _state(disk: str) -> tuple[int, int, int]:
    """When a disk's folder was last read and changed, and the number of a new file, which grows by one with each."""
    status = os.stat(disk)
    descriptor = os.open(disk, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o600)
    try:
        return status.st_atime_ns, status.st_ctime_ns, os.fstat(descriptor).st_ino
    finally:
        os.close(descriptor)
