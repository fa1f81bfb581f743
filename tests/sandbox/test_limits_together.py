"""What a program's processes hold and weigh together: counted where sums over processes would be wrong."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from orchestai.sandbox import Limits, Program, Sandbox
from orchestai.sandbox.bubblewrap import Bubblewrap
from orchestai.sandbox.inside.jail import processes
from orchestai.sandbox.inside.jail.shares import Shares
from orchestai.sandbox.levels import find_namespaces

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="read off Linux's /proc")

_FORKS = """
import ctypes, mmap, os, signal, sys, time
from orchestai.sandbox.inside.jail.processes import descendants, held_bytes

def child(body):
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        os.setpgid(0, 0)
        body()
        os.write(write, b"1")
        time.sleep(60)
    os.read(read, 1)
    print(round(held_bytes(descendants(os.getpid()), 100 << 20) / (1 << 20)))
    os.killpg(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
"""


def _held(body: str) -> int:
    """MB that a child which does `body` is said to hold."""
    done = subprocess.run([sys.executable, "-c", f"{_FORKS}\n{body}\nchild(body)"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return int(done.stdout)


def test_memory_that_children_inherit_counts_once():
    held = _held("""
def body():
    global data
    data = b"x" * (60 << 20)
    for _ in range(4):
        if os.fork() == 0: time.sleep(60)
""")
    assert 55 <= held <= 90


def test_memory_of_each_child_counts():
    held = _held("""
def body():
    read, write = os.pipe()
    for _ in range(4):
        if os.fork() == 0:
            data = b"x" * (40 << 20)
            os.write(write, b"1")
            time.sleep(60)
    for _ in range(4): os.read(read, 1)
""")
    assert held >= 150


def test_shared_memory_counts_whatever_it_is_called():
    held = _held("""
def body():
    global data
    data = mmap.mmap(-1, 40 << 20)
    place = ctypes.addressof(ctypes.c_char.from_buffer(data))
    ctypes.CDLL(None).prctl(0x53564D61, 0, ctypes.c_void_p(place), ctypes.c_size_t(40 << 20), b"mine")
    for _ in range(40): data.write(bytes(1 << 20))
""")
    assert held >= 40


BUSY = "while True: pass"


@pytest.fixture
def balance() -> Iterator[Callable[[list[int]], None]]:
    """Of a program that has no process of its own; a process of the tests is what watches it."""
    shares = Shares([])
    yield shares.balance
    shares.close()


@contextmanager
def _children(number: int, work: str, state: str) -> Iterator[list[int]]:
    """Processes that are in that state of /proc/PID/stat."""
    children = [subprocess.Popen([sys.executable, "-S", "-c", work]) for _ in range(number)]
    pids = [child.pid for child in children]
    try:
        while any(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != state for pid in pids):
            time.sleep(0.01)
        yield pids
    finally:
        for child in children:
            child.send_signal(signal.SIGKILL)
            child.wait()


def _niceness(pids: list[int]) -> list[int]:
    own = os.getpriority(os.PRIO_PROCESS, 0)
    return [os.getpriority(os.PRIO_PROCESS, pid) - own for pid in pids]


@pytest.mark.parametrize(("work", "state", "nice"), [(BUSY, "R", 7), ("import time; time.sleep(60)", "S", 0)])
def test_processes_that_want_to_run_weigh_as_one(balance, work, state, nice):
    """Four together: 1.25 ** -7 is about a quarter. Those that sleep cost their program nothing."""
    with _children(4, work, state) as pids:
        balance(pids)
        assert _niceness(pids) == [nice] * 4


@pytest.mark.skipif(not isinstance(find_namespaces(), Bubblewrap), reason=f"no namespaces: {find_namespaces()}")
def test_a_program_cannot_choose_its_cores_and_leaves_the_next_all():
    crowd = """
import os, time
def task_func(sessions):
    for _ in range(sessions):
        if os.fork() == 0:
            os.setsid()
            while True: os.sched_setaffinity(0, range(1024))
    os.setpriority(os.PRIO_PROCESS, 0, 19)
    assert os.getpriority(os.PRIO_PROCESS, 0) < 19 or sessions
    time.sleep(0.5)
    return len(os.sched_getaffinity(0))
"""
    with Sandbox(1) as sandbox:
        for sessions, cores in ((20, 1), (0, len(os.sched_getaffinity(0)))):
            assertion = f"    def test(self): self.assertEqual(task_func({sessions}), {cores})"
            assert sandbox.run(Program(crowd, f"import unittest\nclass T(unittest.TestCase):\n{assertion}")).success


LEAVES_ITS_TESTS = """
import mmap, os, socket, time
def task_func():
    for name in os.listdir("/proc/self/fd"):
        try: socket.socket(fileno=os.dup(int(name))).shutdown(socket.SHUT_RDWR)
        except OSError: pass
    os.fork(), os.fork()
    held = mmap.mmap(-1, 70 << 20)
    for _ in range(70): held.write(bytes(1 << 20))
    time.sleep(60)
"""


@pytest.mark.skipif(not isinstance(find_namespaces(), Bubblewrap), reason=f"no namespaces: {find_namespaces()}")
def test_a_program_is_watched_while_it_is_not_known_why_the_tests_process_ended():
    """It seems to be killed where it closes what it is asked by, and nobody looked at it for a second at a time."""
    tests = "import unittest\nclass T(unittest.TestCase):\n    def test(self): task_func()"
    with Sandbox(1, Limits(memory_mb=100)) as sandbox:
        assert sandbox.run(Program(LEAVES_ITS_TESTS, tests)).status == "memory"


def test_threads_that_take_turns_lose_no_time_to_others() -> None:
    """Of two that hold the interpreter by turns, each waits for a core while the other sleeps."""
    before = processes.Schedule({}, 0.0, 0.0)
    turns = processes.Schedule({1: (10**7, 0), 2: (35 * 10**7, 26 * 10**8), 3: (35 * 10**7, 26 * 10**8)}, 0.71, 6.0)
    assert processes.waited_s([1], before, turns) == pytest.approx(5.2)
    sleeper = processes.Schedule({1: (10**7, 10**7)}, 0.01, 6.0)
    assert processes.waited_s([1], before, sleeper) == pytest.approx(0.01)
    crowd = processes.Schedule(dict.fromkeys(range(1, 13), (10**9, 5 * 10**9)), 12.0, 6.0)
    assert processes.waited_s([1], before, crowd) == 0, "their own crowd is nobody else's"
