"""System calls that Python has no function for (Linux)."""

from __future__ import annotations

import ctypes
import os

LIBC = ctypes.CDLL(None, use_errno=True)
_capset = LIBC.capset
"""Looked up here, since only forks call it."""

PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS = 1, 4, 36, 38
CLONE_NEWNS, CLONE_NEWIPC, CLONE_NEWPID, CLONE_NEWNET = 0x00020000, 0x08000000, 0x20000000, 0x40000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT, MS_BIND, MS_REC = 1, 2, 4, 8, 32, 4096, 16384
MS_NO_POWER = MS_NOSUID | MS_NODEV | MS_NOEXEC
_MNT_DETACH = 2
_CAPABILITY_VERSION_3 = 0x20080522


def check(result: int, what: str) -> None:
    """Raise OSError unless `result` is 0."""
    if result != 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")


def prctl(option: int, value: int) -> None:
    check(LIBC.prctl(option, *map(ctypes.c_ulong, (value, 0, 0, 0))), f"prctl({option})")


def unshare(flags: int) -> None:
    check(LIBC.unshare(flags), f"unshare({flags:#x})")


def setns(descriptor: int, kind: int) -> None:
    check(LIBC.setns(descriptor, kind), f"setns({kind:#x})")


def mount(source: str, target: str, kind: str | None, flags: int, options: str = "") -> None:
    texts = [None if text is None else text.encode() for text in (source, target, kind)]
    check(LIBC.mount(*texts, ctypes.c_ulong(flags), options.encode()), f"mount {target}")


def unmount(target: str) -> None:
    """Take `target` out of the tree at once; it goes when its last user does."""
    check(LIBC.umount2(target.encode(), _MNT_DETACH), f"unmount {target}")


_HEADER = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
_NOTHING = (ctypes.c_uint32 * 6)()
_AT_HEADER, _AT_NOTHING = map(ctypes.c_void_p, map(ctypes.addressof, (_HEADER, _NOTHING)))
"""Made once: to convert the arrays themselves would touch more of the forked memory."""


def drop_capabilities() -> None:
    """Give up all capabilities, so that being root means owning root's files and nothing more.

    For good in a process with PR_SET_NO_NEW_PRIVS.
    """
    check(_capset(_AT_HEADER, _AT_NOTHING), "capset")
