"""What each device for speed in the sandbox earns: the sandbox as it is, beside copies that each lack one of them.

    python benchmarks/sandbox_devices.py [--rounds 7] [--only NAME ...] [--json FILE]

A copy is the installed package with one passage replaced. All take turns on HumanEval's canonical solutions and on
programs in BigCodeBench's manner (see `sandbox.py`), with one worker; starting up does not count. A device's gain is
the rate as it is over the rate without it, paired within a round; the table has the mean and a 95 % bootstrap interval
over rounds. A device earns its place with 8 % on one of the two sets; the exit code is 1 where one does not, or where a
verdict is wrong.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from importlib.util import find_spec
from pathlib import Path
from unittest.mock import patch

import numpy as np
from peers import Item, bigcodebench_like, humaneval, judge_all
from rich.console import Console
from rich.progress import track
from rich.table import Table

import orchestai
from orchestai.evaluation.statistics import bootstrap_mean
from orchestai.storage import artifacts
from sandbox import PRELOAD, versions

LEAST = 1.08
REPEATED = 4
"""How often a round judges each program of HumanEval, which take some milliseconds each."""


@dataclass(frozen=True)
class Device:
    """Something in the sandbox that is there for its speed alone.

    Attributes:
        path: of its file in the package `orchestai.sandbox`.
        passage, without: what stands there, and what stands there in a copy that lacks the device.
    """

    path: str
    passage: str
    without: str

    def remove(self, sandbox: Path) -> None:
        """Take it out of a copy of `orchestai.sandbox`.

        Raises:
            SystemExit: the passage is not there, or not once.
        """
        file = sandbox / self.path
        source = file.read_text()
        if source.count(self.passage) != 1:
            raise SystemExit(
                f"{self.path} no longer holds once: {self.passage!r}; change benchmarks/sandbox_devices.py"
            )
        file.write_text(source.replace(self.passage, self.without))


DEVICES = {
    "kept test process": Device("inside/jail/namespaces.py", "keeps_tests = True", "keeps_tests = False"),
    "processes ready beforehand": Device(
        "inside/server.py",
        "                self._ready = Attempt(self._jail, self._limits, self._tests)",
        "                pass",
    ),
    "more slots than programs": Device("local_judge.py", "workers + (workers + 1) // 2", "workers"),
    "a server for each beginning": Device(
        "local_judge.py", "tier = self._tier(program)\n        slot", "tier = len(self._preload)\n        slot"
    ),
    "libraries warmed up": Device("inside/server.py", "    warm_up()\n", ""),
    "rehearsals in the server": Device("inside/server.py", "_REHEARSALS = 20", "_REHEARSALS = 0"),
    "rehearsal in the slot": Device("inside/judge/process_main.py", "(**hook)\n    rehearse()", "(**hook)"),
    "frozen garbage": Device("inside/server.py", "    gc.freeze()\n", ""),
}


@dataclass(frozen=True)
class Gain:
    """A rate as it is over the rate without a device."""

    device: str
    set: str
    mean: float
    low: float
    high: float


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--only", nargs="+", choices=DEVICES, default=list(DEVICES), metavar="NAME")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    args = parser.parse_args()
    preload = [module for module in PRELOAD if find_spec(module.partition(".")[0])]
    sets = {"humaneval": humaneval() * REPEATED, "bigcodebench-like": bigcodebench_like()}
    with ExitStack() as stack:
        places = {name: copied(Path(stack.enter_context(tempfile.TemporaryDirectory())), name) for name in args.only}
        rates = measure(
            {"": copied(Path(stack.enter_context(tempfile.TemporaryDirectory()))), **places}, sets, preload, args.rounds
        )
    gains = [gain(name, one, rates) for name in args.only for one in sets]
    earned = {name for name in args.only if max(one.mean for one in gains if one.device == name) >= LEAST}
    Console().print(table(gains, earned))
    if args.json is not None:
        facts = {"rounds": args.rounds, "cpus": os.cpu_count(), "versions": versions(), "preload": preload}
        artifacts.write_json(args.json, {"gains": [asdict(one) for one in gains], "rates": rates, **facts})
    return int(earned != set(args.only))


def copied(folder: Path, device: str | None = None) -> Path:
    """A folder with a copy of the package, without a device."""
    shutil.copytree(Path(orchestai.__file__).parent, folder / "orchestai", ignore=shutil.ignore_patterns("__pycache__"))
    if device is not None:
        DEVICES[device].remove(folder / "orchestai" / "sandbox")
    return folder


def measure(
    places: dict[str, Path], sets: dict[str, list[Item]], preload: Sequence[str], rounds: int
) -> dict[str, dict[str, list[float]]]:
    """Programs per second by set, copy and round; the first round of all warms files up and does not count."""
    turns = [(number, one, name) for number in range(rounds + 1) for one in sets for name in places]
    rates: dict[str, dict[str, list[float]]] = {one: {name: [] for name in places} for one in sets}
    for number, one, name in track(turns, "devices", console=Console(stderr=True)):
        with patch.dict(os.environ, {"PYTHONPATH": str(places[name])}):
            verdicts = judge_all("ours", 1, sets[one], preload)
        if verdicts.passed != [item.passed for item in sets[one]]:
            raise SystemExit(f"wrong verdicts on {one} without {name or 'nothing'}")
        if number:
            rates[one][name].append(len(sets[one]) / verdicts.wall_s)
    return rates


def gain(device: str, one: str, rates: dict[str, dict[str, list[float]]]) -> Gain:
    paired = np.array([whole / less for whole, less in zip(rates[one][""], rates[one][device], strict=True)])
    interval = bootstrap_mean(paired)
    return Gain(device, one, interval.mean, interval.low, interval.high)


def table(gains: Sequence[Gain], earned: set[str]) -> Table:
    shown = Table("device", "set")
    for name in ("gain %", "95 %", "earns 8 %"):
        shown.add_column(name, justify="right")
    for one in gains:
        mean, low, high = (f"{100 * (value - 1):+.1f}" for value in (one.mean, one.low, one.high))
        shown.add_row(one.device, one.set, mean, f"{low} to {high}", "yes" if one.device in earned else "no")
    return shown


if __name__ == "__main__":
    sys.exit(main())
