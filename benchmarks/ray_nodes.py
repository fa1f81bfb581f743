"""Whether three simulated nodes, of which two are killed, say what this process says, and what Ray costs.

    python benchmarks/ray_nodes.py [--programs 2000] [--workflows 300] [--parts killed ...] [--json FILE]

Mixed programs (right, half right, wrong, without an entry point, no Python, raising, running on) are judged, and
random plans of tool workers for composition tasks are collected into a log: here, and on a Ray cluster of three nodes
with one CPU each, whose nodes are killed and replaced after a third and two thirds. A verdict differs whose status,
tests or rewards do; a line of the log differs in anything but its time, its run and latencies. Then the same programs,
all trivial, give the rate of one and of two actors and what a call costs beyond the work. At last a driver that
collects on a Ray of its own gets SIGKILL: within a minute no process of it may be left but two agents of Ray's, which
have two minutes, and the repeated command must finish the log. A file of figures keeps those of parts that are not
measured anew. The exit code is 1 where any of that fails.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import psutil
import ray
from ray.cluster_utils import Cluster
from rich.console import Console

from orchestai.cluster import actors
from orchestai.config import Config, PlaceConfig, RayConfig, load_config
from orchestai.data.collect import Collected, Collection, collect
from orchestai.execution.log import ExecutionLog
from orchestai.execution.runtime import open_runtime, open_sandbox
from orchestai.planner.registry import planner_for
from orchestai.sandbox import Program, Report, Sandbox
from orchestai.storage import artifacts
from orchestai.tasks.suites import open_suite

TESTS = """\
import unittest
class TestCases(unittest.TestCase):
    def test_a(self): self.assertEqual(task_func(1, 2), 3)
    def test_b(self): self.assertEqual(task_func(5, 7), 12)
"""
PROGRAMS = (
    "def task_func(a, b): return a + b",
    "def task_func(a, b): return a + b if a != 5 else 0",
    "def task_func(a, b): return None",
    "def other(a, b): return a + b",
    "def task_func(a, b) return a",
    "def task_func(a, b): raise ValueError(a)",
    "import math\ndef task_func(a, b): return int(math.fsum([a, b]))",
    "import json\ndef task_func(a, b): return json.loads(str(a)) + b",
)
RUNS_ON = "def task_func(a, b):\n    while True: pass"
actors.WAIT_S = 600.0
TOOLS = ("calculator", "stdlib-search")
MEASURED_PROGRAMS = 200
RAYS_AGENTS = ("ray::DashboardA", "ray::RuntimeEnv")
"""They notice a dead cluster at once, and then try for 60 s, by a constant of Ray's, to tell it so."""
console = Console(stderr=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", type=int, default=2000)
    parser.add_argument("--workflows", type=int, default=300)
    parser.add_argument("--parts", nargs="+", choices=[*PARTS], default=[*PARTS])
    parser.add_argument("--json", type=Path)
    parser.add_argument("--collect", type=Path, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.collect:
        asyncio.run(_collect(_config(_away(1)), args.workflows, args.collect))
        return 0
    figures: dict[str, Any] = json.loads(args.json.read_text()) if args.json and args.json.exists() else {}
    for part in args.parts:
        figures |= PARTS[part](args)
    figures["versions"] = {"ray": ray.__version__, **artifacts.versions()}
    figures["cores"] = len(os.sched_getaffinity(0))
    text = json.dumps(figures, indent=2)
    if args.json:
        args.json.write_text(text + "\n")
    print(text)
    wrong = (
        *("verdicts_different", "verdicts_lost", "records_different", "records_lost"),
        *("left_after_a_minute", "agents_left_after_two_minutes"),
    )
    return int(any(figures.get(key) for key in wrong) or figures.get("resumed", args.workflows) != args.workflows)


def _config(place: PlaceConfig) -> Config:
    """Tool workers alone, so that nothing is loaded and equal requests have equal answers."""
    config = load_config("config.yaml", ["sandbox.workers=1", "sandbox.test_s=2", "execution.concurrency=12"])
    pool = {name: config.workers.pool[name] for name in TOOLS}
    tools = {"pool": pool, "models": {}, "recordings": (), "cascade": TOOLS, "planner_model": None, "cache_dir": None}
    execution = config.execution.model_copy(update=dict(place))
    return config.model_copy(update={"workers": config.workers.model_copy(update=tools), "execution": execution})


def _away(number: int) -> PlaceConfig:
    return PlaceConfig(backend="ray", ray=RayConfig(num_workers=number))


async def _collect(
    config: Config, workflows: int, folder: Path, progress: Callable[[Collected], None] | None = None
) -> Collected:
    tasks = open_suite(config.tasks).split("train")
    async with open_runtime(config.workers, config.execution, config.sandbox) as runtime:
        asked = Collection(tasks, workflows, "random/0", runtime.pool.names)
        planner = planner_for("random", config.planner, config.workers, runtime.pool, 0, tasks)
        return await collect(asked, planner, runtime.executor, ExecutionLog(folder), progress=progress)


def _programs(args: argparse.Namespace) -> dict[str, Any]:
    """The same programs here and on nodes that die."""
    mixed, here = [Program(_program(number), TESTS) for number in range(args.programs)], _config(PlaceConfig())
    started = time.perf_counter()
    with open_sandbox(here.sandbox, here.execution) as sandbox:
        expected = asyncio.run(_judged(sandbox, mixed))
    local_s = round(time.perf_counter() - started, 1)
    console.print(f"{args.programs} programs here: {local_s} s")
    with _Nodes(3) as nodes:
        started = time.perf_counter()
        with open_sandbox(here.sandbox, _away(3)) as sandbox:
            found = asyncio.run(_judged(sandbox, mixed, nodes.killer(args.programs)))
        ray_s = round(time.perf_counter() - started, 1)
    console.print(f"on three nodes, {nodes.killed} of them killed: {ray_s} s")
    return {
        "programs": args.programs,
        "programs_nodes_killed": nodes.killed,
        "programs_local_s": local_s,
        "programs_ray_s": ray_s,
        "verdicts_different": sum(
            _verdict(ours) != _verdict(theirs)
            for ours, theirs in zip(expected, found, strict=True)
            if theirs.status != "infra_error"
        ),
        "verdicts_lost": sum(report.status == "infra_error" for report in found),
    }


def _workflows(args: argparse.Namespace) -> dict[str, Any]:
    """The same plans here and on nodes that die."""
    with tempfile.TemporaryDirectory() as folder:
        local_log, remote_log = Path(folder) / "local", Path(folder) / "ray"
        asyncio.run(_collect(_config(PlaceConfig()), args.workflows, local_log))
        with _Nodes(3) as nodes:
            kill = nodes.killer(args.workflows)
            away = _collect(_config(_away(3)), args.workflows, remote_log, lambda state: kill(state.executed))
            asyncio.run(away)
        ours, theirs = (_records(path) for path in (local_log, remote_log))
    return {
        "workflows": args.workflows,
        "workflows_nodes_killed": nodes.killed,
        "records_different": sum(theirs[key] != record for key, record in ours.items() if key in theirs),
        "records_lost": len(ours.keys() - theirs.keys()),
    }


def _program(number: int) -> str:
    """Every 100th runs on until its time is over; each is another text, so that none is known already."""
    code = RUNS_ON if number % 100 == 99 else PROGRAMS[number % len(PROGRAMS)]
    return f"{code}\n# {number}\n"


async def _judged(
    sandbox: Sandbox, programs: Iterable[Program], progress: Callable[[int], None] = lambda done: None
) -> list[Report]:
    done = 0

    async def judge(program: Program) -> Report:
        nonlocal done
        report = await sandbox.arun(program)
        done += 1
        progress(done)
        return report

    return await asyncio.gather(*map(judge, programs))


def _verdict(report: Report) -> tuple[Any, ...]:
    return (report.status, report.passed, report.total, report.level, [test.outcome for test in report.tests])


def _records(folder: Path) -> dict[tuple[str, int], Any]:
    """The lines of a log by task and repetition, without what two runs never share."""
    records = ExecutionLog(folder).read().records
    kept = (record.model_dump(mode="json", exclude={"timestamp", "run_id"}) for record in records)
    return {(record["task_id"], record["repetition"]): _timeless(record) for record in kept}


def _timeless(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _timeless(inner) for key, inner in value.items() if "latency" not in key}
    return [_timeless(inner) for inner in value] if isinstance(value, list) else value


class _Nodes:
    """A simulated cluster: a head without CPUs, and nodes with one each."""

    def __init__(self, count: int) -> None:
        self.killed = 0
        self._cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0})
        self._nodes = [self._cluster.add_node(num_cpus=1) for _ in range(count)]
        ray.init(address=self._cluster.address, log_to_driver=False)

    def killer(self, total: int) -> Callable[[int], None]:
        """Kills a node, and adds another, when a third and two thirds of `total` are done."""
        left = [total // 3, 2 * total // 3]

        def told(done: int) -> None:
            if left and done >= left[0]:
                left.pop(0)
                self._cluster.remove_node(self._nodes.pop(0), allow_graceful=False)
                self._nodes.append(self._cluster.add_node(num_cpus=1))
                self.killed += 1

        return told

    def __enter__(self) -> _Nodes:
        return self

    def __exit__(self, *error: object) -> None:
        ray.shutdown()
        self._cluster.shutdown()


def _rates(args: argparse.Namespace) -> dict[str, Any]:
    """Trivial programs per second here and with one and two actors, and what a call costs beyond the work."""
    config, rates = _config(PlaceConfig()), {}
    for name, place in {"local": PlaceConfig(), "ray_1": _away(1), "ray_2": _away(2)}.items():
        programs = [Program(f"{PROGRAMS[0]}\n# {name} {number}\n", TESTS) for number in range(MEASURED_PROGRAMS)]
        with open_sandbox(config.sandbox, place) as sandbox:
            asyncio.run(_judged(sandbox, [Program(f"{PROGRAMS[0]}\n# first {n}\n", TESTS) for n in range(4)]))
            started = time.perf_counter()
            asyncio.run(_judged(sandbox, programs))
            rates[name] = MEASURED_PROGRAMS / (time.perf_counter() - started)
        console.print(f"{name}: {rates[name]:.1f} programs/s")
    overhead = 1000 / rates["ray_1"] - 1000 / rates["local"]
    return {
        **{f"{name}_programs_per_s": round(rate, 2) for name, rate in rates.items()},
        "overhead_ms_per_execution": round(overhead, 2),
    }


def _killed_driver(args: argparse.Namespace) -> dict[str, Any]:
    """Kill a driver that collects on its own Ray, see what is left of it, and repeat it."""
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log"
        command = [sys.executable, __file__, "--collect", str(log), "--workflows", str(args.workflows)]
        driver = subprocess.Popen(command)
        started: set[psutil.Process] = set()
        while driver.poll() is None and len(_records(log) if log.exists() else {}) < args.workflows // 4:
            started.update(psutil.Process(driver.pid).children(recursive=True))
            time.sleep(0.2)
        of_ray = {process for process in started if process.is_running() and process.name().startswith(RAYS_AGENTS)}
        driver.send_signal(signal.SIGKILL)
        driver.wait()
        logged, killed_at = len(_records(log)), time.monotonic()
        left = _left(started - of_ray, killed_at + 60)
        gone_s = time.monotonic() - killed_at
        agents_left = _left(of_ray, killed_at + 120)
        agents_gone_s = time.monotonic() - killed_at
        console.print(f"killed after {logged} executions; {len(left)} processes left after {gone_s:.1f} s")
        console.print(f"{len(agents_left)} of Ray's {len(of_ray)} agents left after {agents_gone_s:.1f} s")
        subprocess.run(command, check=True)
        return {
            "logged_before_the_kill": logged,
            "processes": len(started),
            "left_after_a_minute": len(left),
            "gone_after_s": round(gone_s, 1),
            "agents_left_after_two_minutes": len(agents_left),
            "agents_gone_after_s": round(agents_gone_s, 1),
            "resumed": len(_records(log)),
        }


def _left(processes: set[psutil.Process], until: float) -> set[psutil.Process]:
    """Which of them still run when none does, or at a time of the monotonic clock."""
    while (left := {one for one in processes if _runs(one)}) and time.monotonic() < until:
        time.sleep(0.2)
    return left


def _runs(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


PARTS = {"killed": _killed_driver, "programs": _programs, "workflows": _workflows, "rates": _rates}

if __name__ == "__main__":
    sys.exit(main())
