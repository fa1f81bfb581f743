"""A system call filter for what no tested program needs and kernels have been broken through."""

from __future__ import annotations

import ctypes
import errno
import os
import struct
from typing import TypeAlias

from .system import LIBC, check

_PR_SET_SECCOMP, _FILTER = 22, 2
_ALLOW, _KILL, _ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
_LOAD, _JUMP_ALWAYS, _JUMP_EQUAL, _JUMP_AT_LEAST, _JUMP_ANY, _RETURN = 0x20, 0x05, 0x15, 0x35, 0x45, 0x06
_AND = 0x54
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT, _SECOND_ARGUMENT, _THIRD_ARGUMENT = 0, 4, 16, 24, 32
_NEW_NAMESPACES = 0x7E020000
"""CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET."""

_SOCKET = {"x86_64": 41, "aarch64": 198}
_UNIX, _NETLINK, _INTERNET = 1, 16, (2, 10)
"""AF_UNIX, AF_NETLINK (of which NETLINK_ROUTE, 0, alone), AF_INET and AF_INET6."""
_KINDS, _PROTOCOLS = (1, 2, 3), (0, 6, 17)
"""SOCK_STREAM, SOCK_DGRAM and SOCK_RAW, which is refused anyway; TCP and UDP: others have the kernel load modules."""
_SETSOCKOPT = {"x86_64": 54, "aarch64": 208}
_SOL_SOCKET, _BUFFER_SIZES = 1, (7, 8, 32, 33)
"""SO_SNDBUF, SO_RCVBUF and the same by force: only done as if, since what the kernel holds is counted by sockets."""
_CLONE = {"x86_64": 56, "aarch64": 220}
_CLONE3 = 435
_AUDIT = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_X32 = 0x40000000
_EVERYWHERE = (425, 426, 427, 428, 429, 430, 431, 432, 433, 442, 438, 440, 447, 444, 445, 446, 451)
"""io_uring; open_tree, move_mount, fsopen, fsconfig, fsmount, fspick, mount_setattr; pidfd_getfd, process_madvise,
memfd_secret; landlock_* (rules that the kernel keeps, without a limit); cachestat."""
# ptrace, process_vm_readv, process_vm_writev, kcmp; mount, umount2, pivot_root, chroot, unshare, setns;
# bpf, userfaultfd, perf_event_open; add_key, request_key, keyctl; kexec_load, kexec_file_load, *_module, reboot;
# name_to_handle_at, open_by_handle_at, lookup_dcookie; swapon, swapoff, acct, quotactl, syslog;
# settimeofday, clock_settime, clock_adjtime, adjtimex; sethostname, setdomainname, vhangup, modify_ldt, iopl, ioperm;
# shmget, semget, msgget, mq_open, memfd_create: memory that no limit sees;
# vmsplice, io_setup: pages that only a pipe holds, and rings that all programs share;
# inotify_init, inotify_init1, fanotify_init: queues of events, which nothing limits;
# mincore, preadv2 (RWF_NOWAIT): which pages of the system's files are in memory outlasts a program
_REFUSED = {
    "x86_64": "101 310 311 312  165 166 155 161 272 308  321 323 298  248 249 250  246 320 175 313 176 169  "
    "303 304 212  167 168 163 179 103  164 227 305 159  170 171 153 154 172 173  29 64 68 240 319  278 206  "
    "253 294 300  27 327",
    "aarch64": "117 270 271 272  40 39 41 51 97 268  280 282 241  217 218 219  104 294 105 273 106 142  264 265 18 "
    "224 225 89 60 116  170 112 266 171  161 162 58  194 190 186 180 279  75 0  26 262  232 286",
}
_CONFINING = {"x86_64": (165, 166, 272, 308), "aarch64": (40, 39, 97, 268)}
"""mount, umount2, unshare, setns: how a slot confines its forks."""
_AS_IF_DONE_BY_FORKS = {"x86_64": (203, 141, 142, 144, 314), "aarch64": (122, 140, 118, 119, 274)}
"""sched_setaffinity, setpriority, sched_setparam, _setscheduler, _setattr: a slot says on which cores its forks
run, and what lets others run first would have its time last longer."""
_AS_IF_DONE = {"x86_64": (162, 306, 221, 187), "aarch64": (81, 267, 223, 213)}
"""sync, syncfs, fadvise64, readahead: they would have disks written, and files of the system thrown out of memory."""


_Lines: TypeAlias = list[tuple[int, int, int, int]]


class Filter:
    """A system call filter, ready to be put on; made once, and then known to every process that is forked.

    Two of them hold a program: its slot puts on what it can do with itself, and its forks, for which the kernel takes
    the longer the more a filter tells apart, add the rest.

    Args:
        of_slot: it refuses all that programs must not call, but for what confines them.

    Raises:
        OSError: this machine's system calls are not known here.
    """

    def __init__(self, *, of_slot: bool) -> None:
        program = _instructions(of_slot)
        self._code = ctypes.create_string_buffer(program, len(program))
        self._filter = ctypes.c_char_p(struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(self._code)))

    def put_on(self) -> None:
        """From now on, for this process (which has PR_SET_NO_NEW_PRIVS) and its children, dangerous calls fail.

        With EPERM, and clone3 with ENOSYS: libraries then use clone, whose flags can be seen.

        Raises:
            OSError: the kernel takes no filter.
        """
        check(LIBC.prctl(_PR_SET_SECCOMP, _FILTER, self._filter), "seccomp")


def _instructions(of_slot: bool) -> bytes:
    machine = os.uname().machine
    if machine not in _AUDIT:
        raise OSError(errno.ENOSYS, f"no system call filter for {machine}")
    confining = {*_CONFINING[machine]}
    refused = sorted({*map(int, _REFUSED[machine].split()), *_EVERYWHERE} - confining if of_slot else confining)
    end = len(refused)
    lines = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_JUMP_EQUAL, 1, 0, _AUDIT[machine]),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
        (_JUMP_AT_LEAST, end + 1, 0, _X32),
        *((_JUMP_EQUAL, end - i, 0, number) for i, number in enumerate(refused)),
        (_JUMP_ALWAYS, 0, 0, 1),
        (_RETURN, 0, 0, _ERRNO | errno.EPERM),
        *(_special_cases(machine) if of_slot else _as_if_done(_AS_IF_DONE_BY_FORKS[machine])),
        (_RETURN, 0, 0, _ALLOW),
    ]
    return b"".join(struct.pack("HBBI", *line) for line in lines)


def _for(number: int, lines: _Lines) -> _Lines:
    """`lines` for a system call whose number is loaded; they end with a verdict."""
    return [(_JUMP_EQUAL, 0, len(lines), number), *lines]


def _as_if_done(numbers: tuple[int, ...]) -> _Lines:
    return [line for number in numbers for line in _for(number, [(_RETURN, 0, 0, _ERRNO)])]


def _unless_among(numbers: tuple[int, ...], refusal: int) -> _Lines:
    """Go on where what is loaded is one of these, else return `refusal`."""
    last = len(numbers)
    return [*((_JUMP_EQUAL, last - i, 0, number) for i, number in enumerate(numbers)), (_RETURN, 0, 0, refusal)]


def _special_cases(machine: str) -> _Lines:
    allowed, refused, as_if_done = ((_RETURN, 0, 0, verdict) for verdict in (_ALLOW, _ERRNO | errno.EPERM, _ERRNO))
    no_family, no_protocol = _ERRNO | errno.EAFNOSUPPORT, _ERRNO | errno.EPROTONOSUPPORT
    first, second, third = ((_LOAD, 0, 0, at) for at in (_FIRST_ARGUMENT, _SECOND_ARGUMENT, _THIRD_ARGUMENT))
    sockets = [
        first,
        *_for(_UNIX, [allowed]),
        *_for(_NETLINK, [third, *_unless_among((0,), no_protocol), allowed]),
        *_unless_among(_INTERNET, no_family),
        second,
        (_AND, 0, 0, 0xF),  # without SOCK_CLOEXEC and SOCK_NONBLOCK
        *_unless_among(_KINDS, _ERRNO | errno.ESOCKTNOSUPPORT),
        third,
        *_unless_among(_PROTOCOLS, no_protocol),
        allowed,
    ]
    sizes = [second, *_unless_among((_SOL_SOCKET,), _ALLOW), third, *_unless_among(_BUFFER_SIZES, _ALLOW), as_if_done]
    return [
        *_as_if_done(_AS_IF_DONE[machine]),
        *_for(_CLONE3, [(_RETURN, 0, 0, _ERRNO | errno.ENOSYS)]),
        *_for(_SOCKET[machine], sockets),
        *_for(_SETSOCKOPT[machine], sizes),
        *_for(_CLONE[machine], [first, (_JUMP_ANY, 0, 1, _NEW_NAMESPACES), refused, allowed]),
    ]
