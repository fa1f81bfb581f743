"""Whether verdicts stay right, and none is lost, while somebody kills processes of the sandbox at random.

    python benchmarks/hostile/kill_storm.py [--programs 20000] [--kills 0] [--every_s 1.0] [--workers 2] [--json FILE]

Programs that add two numbers, rightly, wrongly, or not at all, are judged in `sealed` and `open` isolation, while of
all processes of the sandbox (servers, slots, tests, candidates, and what holds them) one at random gets SIGKILL each
`--every_s` seconds, until `--programs` are judged and `--kills` processes are killed. A verdict is wrong that credits
other tests than the program deserves; it is lost where there is none. Afterwards no process and no folder may be left.
The exit code is 1 where any of that is so.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress

from orchestai.outcome import Unscorable
from orchestai.sandbox import Limits, Program, Sandbox
from orchestai.sandbox.inside.jail import processes
from orchestai.storage import artifacts

TESTS = """\
import unittest
class TestCases(unittest.TestCase):
    def test_a(self): self.assertEqual(task_func(1, 2), 3)
    def test_b(self): self.assertEqual(task_func(5, 7), 12)
    def test_c(self): self.assertEqual([task_func(n, 1) for n in range(3)], [1, 2, 3])
"""
PROGRAMS = {
    "def task_func(a, b): return a + b": 3,
    "def task_func(a, b): return a + b if a != 5 else 0": 2,
    "def task_func(a, b): return None": 0,
    "def task_func(a, b) return a": 0,
}
"""Each with the tests that it deserves."""
console = Console(stderr=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=int, default=20_000)
    parser.add_argument("--kills", type=int, default=0, help="go on with programs until so many processes are killed")
    parser.add_argument("--every_s", type=float, default=1.0, help="seconds between kills")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    args = parser.parse_args()
    figures = storm(args.programs, args.kills, args.every_s, args.workers, random.Random(args.seed))
    for name, value in figures.items():
        print(f"{name}: {value}")
    if args.json is not None:
        artifacts.write_json(args.json, {"arguments": {"every_s": args.every_s, "workers": args.workers}} | figures)
    return int(any(figures[name] for name in ("wrong", "lost", "processes_left", "folders_left")))


def storm(programs: int, kills: int, every_s: float, workers: int, chance: random.Random) -> dict[str, Any]:
    """Judge at least so many programs while at least so many processes are killed; what came of it."""
    folders, before = _folders(), set(processes.descendants(os.getpid()))
    over, started = threading.Event(), time.monotonic()
    killed = 0

    def kill() -> None:
        nonlocal killed
        while not over.wait(every_s):
            if victims := [pid for pid in processes.descendants(os.getpid()) if pid not in before]:
                with suppress(ProcessLookupError):
                    os.kill(chance.choice(victims), signal.SIGKILL)
                    killed += 1

    def items() -> Iterator[tuple[str, int, str]]:
        for number in itertools.count():
            if number >= programs and killed >= kills:
                return
            code, deserved = list(PROGRAMS.items())[number % len(PROGRAMS)]
            yield f"{code}\n# {number}", deserved, "open" if number % 5 == 4 else "sealed"

    def judge(item: tuple[str, int, str]) -> str:
        code, deserved, isolation = item
        report = sandbox.run(Program(code, TESTS, isolation="sealed" if isolation == "sealed" else "open"))
        if isinstance(report.outcome(), Unscorable):
            return f"lost: {report.status}: {report.reason}"
        said = [report.status, report.reason, *(f"{test.outcome}: {test.message}" for test in report.tests)]
        return "" if report.passed == deserved else f"wrong: {report.passed}, not {deserved}: {said}"

    with Sandbox(workers, Limits(wall_s=60, load_s=30, test_s=20), cache_size=0) as sandbox:
        killer = threading.Thread(target=kill)
        killer.start()
        try:
            taken = items()
            with ThreadPoolExecutor(workers) as pool, Progress(console=console) as progress:
                bar = progress.add_task("storm", total=programs)
                results: list[str] = []
                while chunk := list(itertools.islice(taken, 8 * workers)):
                    results += pool.map(judge, chunk)
                    progress.update(bar, completed=len(results))
        finally:
            over.set()
            killer.join()
    faults = [result for result in results if result]
    return {
        "programs": len(results),
        "seconds": round(time.monotonic() - started, 1),
        "killed": killed,
        "wrong": sum(fault.startswith("wrong") for fault in faults),
        "lost": sum(fault.startswith("lost") for fault in faults),
        "processes_left": len(set(processes.descendants(os.getpid())) - before),
        "folders_left": len(_folders() - folders),
        "examples": faults[:5],
    }


def _folders() -> set[Path]:
    return set(Path(tempfile.gettempdir()).glob("sandbox-*"))


if __name__ == "__main__":
    sys.exit(main())
