"""What hostile programs try against the limits that hold on every system, and that it gains them nothing."""

import asyncio
import os
import pickle
import sys
from collections import Counter
from types import SimpleNamespace

import pytest

from orchestai.sandbox import Limits, Program, Sandbox
from orchestai.sandbox.inside.ipc.values import NotPlainError, decode
from support.sandbox.programs import ADD, ADD_TESTS, case

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc and Linux's process controls")
both = pytest.mark.parametrize("isolation", ["sealed", "open"])


@pytest.fixture(scope="module")
def sandbox():
    limits = Limits(wall_s=20, load_s=3, test_s=2, memory_mb=256)
    with Sandbox(workers=2, limits=limits, strictness="process") as sandbox:
        yield sandbox


@linux_only
def test_the_candidate_cannot_open_what_its_neighbours_hold(sandbox):
    """As root too: through /proc it could else write to the pipe that carries the verdicts, or read the tests."""
    code = """
import os
def task_func():
    tried, opened = 0, []
    for pid in filter(str.isdigit, os.listdir("/proc")):
        try: parent = int(open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[1])
        except OSError: continue
        if int(pid) == os.getpid() or os.getppid() not in (parent, int(pid)): continue
        for name in ("mem", "environ", "maps", *(f"fd/{i}" for i in range(32))):
            tried += 1
            try: open(f"/proc/{pid}/{name}", "ab" if "/" in name else "rb").read(1)
            except OSError: continue
            opened.append(name)
    return tried, opened
"""
    report = sandbox.run(Program(code, case("self.assertEqual(task_func(), (2 * 35, []))")))
    assert report.success, report


@linux_only
def test_the_candidates_memory_never_holds_the_tests(sandbox):
    """Searched with patterns that do not match themselves, and that do find what is there."""
    code = """
import ctypes, re
known = "a phrase of the program"
def task_func(*patterns):
    found = set()
    for line in open("/proc/self/maps").readlines():
        addresses, mode, *_ = line.split()
        start, end = (int(address, 16) for address in addresses.split("-"))
        if "rw" in mode:
            content = ctypes.string_at(start, end - start)
            found |= {pattern for pattern in patterns if re.search(pattern, content)}
    return found
"""
    body = """
expected = "a phrase of the tests"
self.assertEqual(task_func(b"a phrase of the [p]", b"a phrase of the [t]"), {b"a phrase of the [p]"})
"""
    report = sandbox.run(Program(code, case(body)))
    assert report.success, report


@pytest.mark.parametrize(
    "payload",
    [
        pickle.dumps(SimpleNamespace(a=1)),
        pickle.dumps(print),
        b"cbuiltins\neval\n(S'1'\ntR.",
        b"cos\nsystem\n(S'true'\ntR.",
        b"(S'1'\nibuiltins\nint\n.",
        b"",
        b"\x80\x04",
    ],
)
def test_decoding_refuses_everything_but_plain_values(payload):
    with pytest.raises(NotPlainError):
        decode(payload)


def test_decoding_cannot_change_a_class():
    """`BUILD` on a class, which pickle would allow, would make every Counter equal to everything."""
    payload = b"\x80\x04ccollections\nCounter\nN}X\x06\x00\x00\x00__eq__cbuiltins\ntuple\ns\x86b."
    with pytest.raises(NotPlainError):
        decode(payload)
    assert Counter("a") != Counter("b")


@linux_only
@both
def test_no_process_outlives_its_program(sandbox, isolation, tmp_path):
    """A daemon in a session of its own, as a program leaves one behind."""
    code = f"""
import os, time
def task_func(a, b):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            open({str(tmp_path / "pid")!r}, "a").write(f"{{os.getpid()}} ")
            time.sleep(60)
        os._exit(0)
    time.sleep(0.1)
    return a + b
"""
    assert sandbox.run(Program(code, ADD_TESTS, isolation=isolation)).success
    pids = [int(pid) for pid in (tmp_path / "pid").read_text().split()]
    assert len(pids) == 4
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


def test_the_environment_and_the_working_directory_are_the_programs_own(monkeypatch):
    monkeypatch.setenv("SOME_API_KEY", "secret")
    code = "import os\ndef task_func():\n    return os.environ.get('SOME_API_KEY'), os.getcwd()"
    with Sandbox(workers=1, strictness="process") as fresh:
        report = fresh.run(Program(code, case("key, cwd = task_func()\nself.assertIsNone(key)\nself.fail(cwd)")))
        folder = report.tests[0].message.removeprefix("AssertionError: ")
        assert folder.startswith("/")
        assert folder != os.getcwd()
        assert not os.path.exists(folder)
        home = os.path.dirname(folder)
        assert os.path.isdir(home)
    assert not os.path.exists(home)


@linux_only
async def test_a_program_that_kills_its_judge_costs_itself_and_nobody_else(sandbox):
    """It gets a second run with a fork server to itself; killing that one too proves whose fault it was."""
    killer = Program("import os, signal\nos.kill(os.getppid(), signal.SIGKILL)\n" + ADD, ADD_TESTS)
    slow = Program("import time\ntime.sleep(0.3)\n" + ADD, ADD_TESTS)
    died, fine = await asyncio.gather(sandbox.arun(killer), sandbox.arun(slow))
    assert (died.status, died.passed, died.total) == ("died", 0, 4)
    assert fine.success
