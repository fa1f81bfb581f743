"""Memory in huge pages: of each, a fork copies one entry of the page tables where it would copy 512."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import suppress

from .system import LIBC

_SIZE = 2 << 20
_MADV_COLLAPSE = 25


def collapse() -> None:
    """Put this process's memory into huge pages where the system can (Linux 6.1 and later).

    Those that a fork or this process writes to are taken apart again; what libraries have loaded mostly lies still.
    """
    with suppress(OSError):
        for begin, end in list(_anonymous()):
            begin, end = -(-begin // _SIZE) * _SIZE, end // _SIZE * _SIZE
            if begin < end:
                LIBC.madvise(ctypes.c_void_p(begin), ctypes.c_size_t(end - begin), _MADV_COLLAPSE)


def _anonymous() -> Iterator[tuple[int, int]]:
    """Addresses of this process's own memory that has no file behind it; none where /proc is missing."""
    with open("/proc/self/maps") as file:
        for line in file:
            addresses, mode, _, _, inode, *name = line.split(maxsplit=5)
            if mode == "rw-p" and inode == "0" and "[stack]\n" not in name:
                begin, end = addresses.split("-")
                yield int(begin, 16), int(end, 16)
