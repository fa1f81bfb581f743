"""How much memory the processes of a program hold together, and the kernel for them (Linux)."""

from __future__ import annotations

import ctypes
import mmap
import os
import re
from contextlib import suppress
from functools import cache
from pathlib import Path

_RESIDENT = re.compile(r"^RssAnon:\s+(\d+)", re.MULTILINE)
_SHARED_RESIDENT = re.compile(r"^RssShmem:\s+(\d+)", re.MULTILINE)
_PROPORTIONAL = re.compile(r"^Pss_Anon:\s+(\d+)", re.MULTILINE)
_DEVICE = re.compile(r"^(\S+) \S+ \S+ (\S+)", re.MULTILINE)
_DEFAULTS = ("rmem_default", "wmem_default")


def held_bytes(pids: list[int], most: int) -> int:
    """Memory without a file behind it that these forks of this process hold beyond what they had from it.

    Roughly; but where that seems more than `most`, what several of them share counts once.
    """
    shared = _shared_bytes(pids)
    inherited = _private_bytes(os.getpid())
    private = sum(max(0, _private_bytes(pid) - inherited) for pid in pids)
    if private + shared > most:
        private = max(0, sum(map(_share_of_private_bytes, pids)) - inherited)
    return private + shared


def maps(pids: list[int], most: int) -> int:
    """Count the memory maps of these processes, no further than it takes to see that they are more than `most`."""
    found = 0
    for pid in pids:
        with suppress(OSError), open(f"/proc/{pid}/maps", "rb", buffering=0) as file:
            while found <= most and (lines := file.read(1 << 16)):
                found += lines.count(b"\n")
    return found


def socket_bytes() -> int:
    """What the kernel keeps at most in a socket whose buffers are of the system's sizes, unread and unsent."""
    total = 0
    for name in _DEFAULTS:
        with suppress(OSError):
            total += int(Path(f"/proc/sys/net/core/{name}").read_text())
    return total or 1 << 19


def _private_bytes(pid: int) -> int:
    return _kilobytes(_RESIDENT, f"/proc/{pid}/status")


def _share_of_private_bytes(pid: int) -> int:
    """The same, but for each page its share of it among the processes that have it; all of it where we may not look."""
    return _kilobytes(_PROPORTIONAL, f"/proc/{pid}/smaps_rollup") or _private_bytes(pid)


def _shared_bytes(pids: list[int]) -> int:
    """Shared memory without a file that any of these processes maps, whether it has its pages in use or not."""
    sizes: dict[str, int] = {}
    elsewhere = 0
    for pid in pids:
        try:
            mapped = _shared_maps().findall(Path(f"/proc/{pid}/maps").read_text())
        except OSError:  # it has just ended, or we may not look
            elsewhere += _kilobytes(_SHARED_RESIDENT, f"/proc/{pid}/status")
            continue
        for place, offset, number in mapped:
            sizes[number] = max(sizes.get(number, 0), _size(pid, place, int(offset, 16)))
    return sum(sizes.values()) + elsewhere


@cache
def _shared_maps() -> re.Pattern[str]:
    """Lines of maps that are shared memory without a file: all of it is on one device, whatever it may be called
    (PR_SET_VMA_ANON_NAME)."""
    with mmap.mmap(-1, mmap.PAGESIZE) as own:
        place = ctypes.addressof(ctypes.c_char.from_buffer(own))
        for span, device in _DEVICE.findall(Path("/proc/self/maps").read_text()):
            begin, end = (int(address, 16) for address in span.split("-"))
            if begin <= place < end:
                return re.compile(rf"^(\S+) \S+ (\S+) {device} (\d+)", re.MULTILINE)
    raise OSError("no shared memory of this process can be found")


def _size(pid: int, place: str, offset: int) -> int:
    """What the shared memory mapped at a place takes; where the system does not tell, as far as it is mapped."""
    with suppress(OSError):
        return os.stat(f"/proc/{pid}/map_files/{place}").st_blocks * 512
    begin, end = (int(address, 16) for address in place.split("-"))
    return offset + end - begin


def _kilobytes(pattern: re.Pattern[str], path: str) -> int:
    """A line's figure, in bytes; 0 where there is none."""
    with suppress(OSError):
        if found := pattern.search(Path(path).read_text()):
            return int(found[1]) << 10
    return 0
