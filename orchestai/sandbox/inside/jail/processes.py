"""Which processes a program has, what they use and hold together, and how all of them are ended."""

from __future__ import annotations

import ctypes
import mmap
import os
import re
import select
import signal
import sys
import time
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

_RESIDENT = re.compile(r"^RssAnon:\s+(\d+)", re.MULTILINE)
_SHARED_RESIDENT = re.compile(r"^RssShmem:\s+(\d+)", re.MULTILINE)
_PROPORTIONAL = re.compile(r"^Pss_Anon:\s+(\d+)", re.MULTILINE)
_DEVICE = re.compile(r"^(\S+) \S+ \S+ (\S+)", re.MULTILINE)
MAXRSS_UNIT = 1 if sys.platform == "darwin" else 1024
_NOBODY_ELSE_S = 0.001
"""Whoever still lives after a pause of this length is in none of the groups that were killed."""


def descendants(root: int) -> list[int]:
    """Living children of `root`, their children, and so on; empty where /proc does not tell."""
    found = [root]
    for pid in found:
        with suppress(OSError):
            for thread in os.listdir(f"/proc/{pid}/task"):
                with suppress(OSError):
                    found += map(int, Path(f"/proc/{pid}/task/{thread}/children").read_text().split())
    return found[1:]


class Schedule(NamedTuple):
    """What processes had of the cores by a time: by thread the nanoseconds for which it ran, and was ready to run but
    had no core; and the CPU seconds of all, with those of children that they waited for."""

    threads: dict[int, tuple[int, int]]
    cpu_s: float
    at: float


def schedule(pids: list[int]) -> Schedule:
    threads, total = {}, 0.0
    for pid in pids:
        with suppress(OSError, ValueError):
            for thread in os.listdir(f"/proc/{pid}/task"):
                ran, waited, _ = map(int, read_line(f"/proc/{pid}/task/{thread}/schedstat").split())
                threads[int(thread)] = ran, waited
        total += cpu_s(pid)
        with suppress(OSError):  # and what the children used that it has waited for
            fields = read_line(f"/proc/{pid}/stat").rpartition(b")")[2].split()
            total += (int(fields[13]) + int(fields[14])) / os.sysconf("SC_CLK_TCK")
    return Schedule(threads, total, time.monotonic())


def waited_s(firsts: list[int], before: Schedule, now: Schedule) -> float:
    """Seconds for which a thread was ready to run but had no core, because of other processes than these.

    `firsts` take turns, so what their first threads waited adds up. Threads of a program may take turns, too (one holds
    the interpreter): what they waited adds up as far as they did not run.
    """
    total = max(0.0, now.cpu_s - before.cpu_s)
    waits, every = {}, 0.0
    for thread, (ran, waited) in now.threads.items():
        ran_before, waited_before = before.threads.get(thread, (0, 0))
        own = min((waited - waited_before) / 1e9, now.at - before.at)
        waits[thread], every = max(0.0, own - max(0.0, total - (ran - ran_before) / 1e9)), every + own
    turns = min(every, now.at - before.at - total)
    return max(sum(waits.pop(pid, 0.0) for pid in firsts), *waits.values(), turns, 0.0)


class Usage(NamedTuple):
    """What an ended process, with the children that it waited for, has used; `exit_code` -n means by signal n."""

    exit_code: int
    cpu_s: float
    peak_bytes: int


def reap() -> tuple[dict[int, Usage], bool]:
    """Children of this process that have ended, orphans that fell to it among them, and whether others live."""
    found: dict[int, Usage] = {}
    try:
        while (ended := os.wait4(-1, os.WNOHANG))[0]:
            found[ended[0]] = _usage(ended[1], ended[2])
    except ChildProcessError:
        return found, False
    return found, True


def end_all(groups: list[int], patience_s: float = 5.0) -> dict[int, Usage]:
    """Kill the process groups and every descendant of this process, and reap them; what each child used. Raises
    RuntimeError: some could not be ended within `patience_s`."""
    for group in groups:
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(group, signal.SIGKILL)
    give_up = time.monotonic() + patience_s
    pause = 0.0002
    used: dict[int, Usage] = {}
    while time.monotonic() < give_up:
        ended, others = reap()
        used |= ended
        if not others:
            return used
        if pause > _NOBODY_ELSE_S:
            for pid in descendants(os.getpid()) or groups:
                with suppress(ProcessLookupError, PermissionError):
                    os.kill(pid, signal.SIGKILL)
        time.sleep(pause)
        pause = min(pause * 2, 0.02)
    raise RuntimeError("processes of the program could not be ended")


def end_namespaces(firsts: list[int], patience_s: float = 15.0) -> dict[int, Usage]:
    """Kill the first processes of pid namespaces, with which all others in them end, and reap them; what each used.
    Raises RuntimeError: some could not be ended within `patience_s`."""
    for pid in firsts:
        os.kill(pid, signal.SIGKILL)
    give_up = time.monotonic() + patience_s
    used = {}
    for pid in firsts:
        descriptor = os.pidfd_open(pid)
        try:
            if not select.select([descriptor], [], [], max(0.0, give_up - time.monotonic()))[0]:
                raise RuntimeError("processes of the program could not be ended")
        finally:
            os.close(descriptor)
        used[pid] = _usage(*os.wait4(pid, 0)[1:])
    return used


def _usage(status: int, used: Any) -> Usage:
    return Usage(os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime, used.ru_maxrss * MAXRSS_UNIT)


def cpu_s(pid: int) -> float:
    """CPU time that a living process has used so far (Linux; else 0)."""
    try:
        return time.clock_gettime((~pid << 3) | 2)  # its clock's id, as clock_getcpuclockid(3) makes it
    except OSError:
        return 0.0


def resident_bytes() -> int:
    """Memory that this process has in use, shared or not (Linux; else 0)."""
    try:
        return int(read_line("/proc/self/statm").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return 0


def read_line(path: str) -> bytes:
    """A line of the system's, by three calls instead of the ten that `open` makes."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, 1 << 12)
    finally:
        os.close(descriptor)


# Memory, and that of the kernel for them (Linux)


def held_bytes(pids: list[int], most: int) -> int:
    """Memory without a file behind it that these forks of this process hold beyond what they had from it.

    Roughly; but where that seems more than `most`, what several of them share counts once.
    """
    shared = _shared_bytes(pids)
    inherited = _kilobytes(_RESIDENT, os.getpid(), "status")
    held = sum(max(0, _kilobytes(_RESIDENT, pid, "status") - inherited) for pid in pids) + shared
    if held > most:  # for each page its share of it among the processes that have it; all of it where we may not look
        parts = (_kilobytes(_PROPORTIONAL, pid, "smaps_rollup") or _kilobytes(_RESIDENT, pid, "status") for pid in pids)
        held = max(0, sum(parts) - inherited) + shared
    return held


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
    with suppress(OSError):
        return sum(int(Path(f"/proc/sys/net/core/{name}").read_text()) for name in ("rmem_default", "wmem_default"))
    return 1 << 19


def _shared_bytes(pids: list[int]) -> int:
    """Shared memory without a file that any of these processes maps, whether it has its pages in use or not."""
    sizes: dict[str, int] = {}
    elsewhere = 0
    for pid in pids:
        try:
            mapped = _shared_maps().findall(Path(f"/proc/{pid}/maps").read_text())
        except OSError:  # it has just ended, or we may not look
            elsewhere += _kilobytes(_SHARED_RESIDENT, pid, "status")
            continue
        for place, offset, number in mapped:
            try:
                size = os.stat(f"/proc/{pid}/map_files/{place}").st_blocks * 512
            except OSError:  # the system does not tell: as far as it is mapped
                begin, end = (int(address, 16) for address in place.split("-"))
                size = int(offset, 16) + end - begin
            sizes[number] = max(sizes.get(number, 0), size)
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


def _kilobytes(pattern: re.Pattern[str], pid: int, file: str) -> int:
    """A line's figure, in bytes; 0 where there is none."""
    with suppress(OSError):
        if found := pattern.search(Path(f"/proc/{pid}/{file}").read_text()):
            return int(found[1]) << 10
    return 0
