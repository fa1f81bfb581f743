"""What a program finds of those before it, and what comes of the next one when something went wrong before it came."""

import os
import signal
import subprocess
import sys
import time

import pytest

from orchestai.outcome import Scored
from orchestai.sandbox import Limits, Program, Sandbox, local_judge
from orchestai.sandbox.bubblewrap import Bubblewrap
from orchestai.sandbox.inside.jail import processes
from orchestai.sandbox.levels import find_namespaces
from support.sandbox.programs import ADD, ADD_TESTS, case

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="needs /proc and Linux's process controls")
namespaces = pytest.mark.skipif(not isinstance(find_namespaces(), Bubblewrap), reason=f"{find_namespaces()}")

LIMITS = Limits(wall_s=20, load_s=3, test_s=2, memory_mb=256)
FIND_WRITER = """
import os, sys
def writer():
    frame = sys._getframe()
    while frame:
        for value in list(frame.f_locals.values()):
            if type(value).__name__ == "VerdictWriter": return value
        frame = frame.f_back
"""


@pytest.fixture
def sandbox():
    with Sandbox(workers=1, limits=LIMITS, cache_size=0, strictness="process") as sandbox:
        yield sandbox


@pytest.fixture
def strict():
    with Sandbox(workers=1, limits=LIMITS, cache_size=0, strictness="strict") as sandbox:
        yield sandbox


def test_what_tests_said_is_not_in_the_memory_of_the_next_candidate(sandbox):
    code = """
import ctypes, re
def task_func(*patterns):
    for line in open("/proc/self/maps").readlines():
        addresses, mode, *_ = line.split()
        start, end = (int(address, 16) for address in addresses.split("-"))
        if "rw" in mode:
            content = ctypes.string_at(start, end - start)
            for pattern in patterns:
                if found := re.search(pattern, content): return found.group()
"""
    secret = case("print('marzi' + 'pan')\nself.assertEqual(task_func(), 'zebra' + 'crossing')")
    for _ in range(4):
        failed = sandbox.run(Program("def task_func(): return 'none'", secret)).tests[0]
        assert (failed.output, failed.message.splitlines()[0]) == (
            "marzipan\n",
            "AssertionError: 'none' != 'zebracrossing'",
        )
    for _ in range(2):
        spy = sandbox.run(Program(code, case("self.assertIsNone(task_func(b'zebracrossin[g]', b'marzipa[n]'))")))
        assert spy.success, spy


def test_assertions_count_where_this_process_drops_its_own():
    script = """
import marshal
from orchestai.sandbox.static.test_discovery import packed
exec(marshal.loads(packed("assert 1 == 2", (), "f"))[1])
"""
    done = subprocess.run([sys.executable, "-O", "-c", script], capture_output=True, text=True, check=False)
    assert "AssertionError" in done.stderr


@pytest.mark.parametrize("facts", ["'', wall_s=10 ** 400", "[[]] * 100000", "'a' * (2 << 20)", "'', output={'a': 1}"])
def test_no_report_of_a_test_keeps_the_verdict_from_coming(sandbox, facts):
    code = FIND_WRITER + f"def task_func(): writer().end(0, 'passed', {facts})"
    report = sandbox.run(Program(code, case("self.assertEqual(task_func(), 1)"), isolation="open"))
    assert (report.status, report.outcome()) == ("tampered", Scored(0.0))


def test_processes_that_ended_while_they_waited_cost_nobody_a_verdict(sandbox):
    assert sandbox.run(Program(ADD, ADD_TESTS)).success
    for last in (False, True):
        time.sleep(0.2)
        for slot in processes.descendants(sandbox.server_pid):
            if waiting := sorted(processes.descendants(slot)):
                os.kill(waiting[-last], signal.SIGKILL)
        time.sleep(0.2)
        assert [sandbox.run(Program(ADD, ADD_TESTS)).status for _ in range(3)] == ["ok"] * 3


def test_a_program_that_raises_import_errors_while_tests_load_is_not_let_off(sandbox):
    tests = "DATA = task_func()\n" + case("self.assertEqual(DATA, 2)")
    report = sandbox.run(Program("def task_func(): raise ImportError('x')", tests))
    assert (report.status, report.outcome()) == ("import_error", Scored(0.0))
    missing = sandbox.run(Program("def task_func(): return 2", "import no_such_module\n" + tests))
    assert missing.status == "broken"


@namespaces
@pytest.mark.parametrize("folder", ["/sandbox", "/dev/shm"])
def test_a_disk_that_its_owner_closed_is_replaced(monkeypatch, folder):
    """Without root the programs' user owns it, and the slot may then not list it."""
    found = find_namespaces()
    assert isinstance(found, Bubblewrap)
    monkeypatch.setattr(local_judge, "choose_level", lambda _: ("namespaces", Bubblewrap(found.path, True)))
    monkeypatch.setattr(Bubblewrap, "runs_as", None)  # the interpreter may lie where other users cannot read
    with Sandbox(workers=1, limits=LIMITS, cache_size=0) as sandbox:
        assert sandbox.run(Program(f"import os\nos.chmod({folder!r}, 0)\n" + ADD, ADD_TESTS)).success
        assert [sandbox.run(Program(ADD, ADD_TESTS)).status for _ in range(4)] == ["ok"] * 4


@namespaces
def test_no_count_of_files_or_packets_reaches_the_next_program(strict):
    count = """
import os, socket
def number():
    file = os.open(".", os.O_TMPFILE | os.O_RDWR)
    try: return os.fstat(file).st_ino
    finally: os.close(file)
def task_func():
    lo = next(line.split() for line in open("/proc/net/dev") if "lo:" in line)
    return number() < 100, lo[1], [line for line in open("/proc/net/snmp") if line.startswith("Ip:")][1].split()[11]
"""
    leave = """
for _ in range(1000): number()
one = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
one.bind(("127.0.0.1", 0))
one.sendto(b"x", one.getsockname())
try: one.sendto(b"x", ("192.0.2.1", 9))
except OSError: pass
one.close()
"""
    nothing = case("self.assertEqual(task_func(), (True, '0', '0'))")
    for program in (count, count + leave, count + leave, count, count):
        assert strict.run(Program(program, case("task_func()"))).success
    for _ in range(3):
        report = strict.run(Program(count, nothing))
        assert report.success, report
