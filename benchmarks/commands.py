"""Seconds and memory of the commands on the demo's data, each in a process of its own.

    python -m benchmarks.commands [--folder DIR] [--json FILE] [NAME...]

A command reads what those before it wrote, so that a name alone needs a folder in which they ran. `serve` counts until
it answers. Memory is the highest sum of proportional set sizes (a page that processes share counts once, in parts) over
the process and all that it started, looked at five times a second (Linux).
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import psutil
from rich.console import Console
from rich.table import Table

from orchestai.storage import artifacts
from orchestai.tasks import load_suite

INSTRUCTION = "Write a function that reverses the word and puts it in capitals, e.g. task_func('stone') == 'ENOTS'"
_EVERY_S = 0.2
console = Console(stderr=True)


class Measured(NamedTuple):
    """What a command took; `cpu_s` lacks processes that ended between two looks if nobody waited for them."""

    seconds: float
    cpu_s: float
    peak_mb: float
    exit_code: int


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="only these commands")
    parser.add_argument("--folder", type=Path, default=Path("runs/commands"))
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    args = parser.parse_args()
    port = _free_port()
    commands = commands_in(args.folder, port)
    if unknown := set(args.names) - commands.keys():
        parser.error(f"no command {', '.join(sorted(unknown))}; there are {', '.join(commands)}")
    args.folder.mkdir(parents=True, exist_ok=True)
    _write_samples(args.folder / "samples.jsonl")
    found = {}
    for name in args.names or commands:
        console.print(f"{name}: orchestai {' '.join(commands[name])}", highlight=False, markup=False)
        ready = (lambda: _answers(port)) if name == "serve" else None
        with (args.folder / f"{name}.log").open("wb") as said:
            found[name] = measure([sys.executable, "-m", "orchestai.cli", *commands[name]], said.fileno(), ready)
    table = Table("command", "seconds", "CPU seconds", "peak MB", "exit code")
    for name, one in found.items():
        table.add_row(name, f"{one.seconds:.1f}", f"{one.cpu_s:.1f}", f"{one.peak_mb:.0f}", str(one.exit_code))
    Console().print(table)
    if args.json is not None:
        facts = {"cores": len(os.sched_getaffinity(0)), "versions": artifacts.versions()}
        artifacts.write_json(args.json, {"commands": {name: one._asdict() for name, one in found.items()}, **facts})


def commands_in(folder: Path, port: int) -> dict[str, list[str]]:
    """Name -> the words after `orchestai`; all files are in the folder."""
    logs, data, phase1, phase2 = (
        str(folder / name) for name in ("execution_logs", "training_data.json", "phase1_best.pth", "phase2_best.pth")
    )
    planners = ["--phase1", phase1, "--checkpoint", phase2]
    demo = ["demo", "--output_dir", str(folder / "demo")]
    return {
        "help": ["--help"],
        "doctor": ["doctor", "--checkpoint", "base"],
        "collect": ["collect", "--num_executions", "2400", "--output_dir", logs],
        "prepare": ["prepare", "--logs", logs, "--output", data],
        "train-phase1": ["train-phase1", "--data", data, "--output_dir", str(folder)],
        "train-phase2": ["train-phase2", "--checkpoint", phase1, "--output_dir", str(folder)],
        "evaluate": ["evaluate", *planners, "--logs", logs, "--output", str(folder / "evaluation.json")],
        "prepare-plans": ["prepare-plans", "--from", "instructions", "--output", str(folder / "plans.json")],
        "evaluate-plans": ["evaluate-plans", "--plans", str(folder / "plans.json"), "--checkpoint", phase2],
        "score": ["score", str(folder / "samples.jsonl"), "--output", str(folder / "verdicts.jsonl")],
        "plan": ["plan", INSTRUCTION, "--checkpoint", phase2],
        "run": ["run", INSTRUCTION, "--checkpoint", phase2, "--log", str(folder / "runs")],
        "serve": ["serve", "--checkpoint", phase2, "--port", str(port), "--logs", str(folder / "served")],
        "report": ["report", str(folder), "--output", str(folder / "report.html")],
        "demo": demo,
        "demo again": demo,
    }


def measure(
    command: list[str], said: int, ready: Callable[[], bool] | None = None, folder: Path | None = None
) -> Measured:
    """Run a command, to its end or until it is ready.

    Args:
        said: file that takes its output.
        folder: that it works in; by default the present one.
    """
    began, peak, cpu_s = time.monotonic(), 0, dict[int, float]()
    process = psutil.Popen(command, stdout=said, stderr=subprocess.STDOUT, cwd=folder)
    while process.poll() is None and not (ready is not None and ready()):
        held = 0
        for one in (process, *_descendants(process)):
            try:
                with one.oneshot():
                    held += one.memory_full_info().pss
                    cpu_s[one.pid] = sum(one.cpu_times()[:2])
            except psutil.Error:  # it has ended
                continue
        peak = max(peak, held)
        time.sleep(_EVERY_S)
    seconds = time.monotonic() - began
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
    return Measured(round(seconds, 2), round(sum(cpu_s.values()), 1), round(peak / 2**20, 1), process.wait())


def _descendants(process: psutil.Process) -> list[psutil.Process]:
    try:
        return list(process.children(recursive=True))
    except psutil.Error:
        return []


def _write_samples(path: Path) -> None:
    """The suite's own solutions of its tests, for `score`."""
    tasks = load_suite("composition").split("test")
    rows: list[dict[str, Any]] = [{"task_id": task.task_id, "solution": task.canonical_solution} for task in tasks]
    artifacts.write_text(path, "".join(json.dumps(row) + "\n" for row in rows))


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def _answers(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/healthz", timeout=1) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False


if __name__ == "__main__":
    main()
