"""Verdicts while somebody kills the sandbox's processes: 15 of 6,000 were wrong and 155 lost before."""

import json
import os
import signal
import subprocess
import sys
import threading
from contextlib import suppress
from pathlib import Path

import pytest

from orchestai.sandbox import Limits, Program, Sandbox
from orchestai.sandbox.bubblewrap import Bubblewrap
from orchestai.sandbox.inside.jail import processes
from orchestai.sandbox.levels import find_namespaces

pytestmark = pytest.mark.skipif(
    not isinstance(find_namespaces(), Bubblewrap), reason=f"no namespaces: {find_namespaces()}"
)


def storm(repository: Path, folder: Path, programs: int, kills: int, every_s: float) -> dict[str, object]:
    command = [
        sys.executable,
        str(repository / "benchmarks" / "hostile" / "kill_storm.py"),
        "--json",
        str(folder / "figures.json"),
    ]
    command += ["--programs", str(programs), "--kills", str(kills), "--every_s", str(every_s)]
    subprocess.run(
        command, env={"TMPDIR": str(folder), "PYTHONPATH": str(repository)}, capture_output=True, check=False
    )
    figures: dict[str, object] = json.loads((folder / "figures.json").read_text())
    return figures


WITH_CHILDREN = """\
import os, time, unittest
class TestCases(unittest.TestCase):
    def test_a(self):
        self.assertEqual(task_func(1, 2), 3)
        children = []
        for _ in range(60):
            if not (child := os.fork()):
                time.sleep(60)
            children.append(child)
        time.sleep(1.5)
        for child in children:
            os.kill(child, 9)
        self.assertEqual(task_func(1, 3), 4)
"""


def kill_one_with_children(server: int, over: threading.Event) -> None:
    """Kill the process that has so many children that the kernel takes a while to end it."""
    while not over.wait(0.02):
        for pid in processes.descendants(server):
            with suppress(OSError):  # it has ended meanwhile
                if len(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()) == 60:
                    os.kill(pid, signal.SIGKILL)
                    over.set()
                    return


@pytest.mark.slow
def test_a_process_that_is_killed_and_slow_to_end_is_not_the_fault_of_the_program():
    """The candidate found itself alone and ended before the tests' process did: in every second of these, it `died`."""
    with Sandbox(1, Limits(wall_s=60, load_s=30, test_s=20), cache_size=0) as sandbox:
        for _ in range(3):
            over = threading.Event()
            killer = threading.Thread(target=kill_one_with_children, args=(sandbox.server_pid, over))
            killer.start()
            report = sandbox.run(Program("def task_func(a, b): return a + b", WITH_CHILDREN))
            was_killed = over.is_set()
            over.set()
            killer.join()
            assert was_killed
            assert (report.status, report.reason, report.passed) == ("ok", "", 1)


FAULTS = ("wrong", "lost", "processes_left", "folders_left")


@pytest.mark.slow
def test_no_verdict_is_wrong_or_lost_while_processes_are_killed(repository, tmp_path):
    figures = storm(repository, tmp_path, programs=100, kills=4, every_s=0.5)
    assert {name: figures[name] for name in FAULTS} == dict.fromkeys(FAULTS, 0), figures["examples"]


@pytest.mark.slow
@pytest.mark.timeout(1500)
def test_nor_in_a_long_storm(repository, tmp_path):
    figures = storm(repository, tmp_path, programs=2000, kills=10, every_s=1.0)
    assert {name: figures[name] for name in FAULTS} == dict.fromkeys(FAULTS, 0), figures["examples"]
