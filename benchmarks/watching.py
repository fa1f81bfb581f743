"""Whether `orchestai watch` slows the training that it shows: the same phase 2 with and without it, in turn.

    python -m benchmarks.watching runs/demo [--pairs 5] [--updates 4] [--json docs/results/watching.json]

What is watched is the training's own folder, which it writes to, and a log of 10,000 executions, which makes each page
dear; a browser's part is played by a client that loads the page again at every change it is told of. The ratio is the
time of the whole command, watched over alone, of runs that follow each other; which comes first alternates.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from itertools import count
from pathlib import Path
from typing import Any

import httpx2 as httpx
import numpy as np
import psutil
from rich.console import Console

from benchmarks.report_page import repeated_log
from orchestai.evaluation.statistics import bootstrap_mean
from orchestai.storage import artifacts

ORCHESTAI = (sys.executable, "-m", "orchestai.cli")
console = Console(stderr=True)


class Reader(threading.Thread):
    """Loads a page, and again whenever its server says that it changed, as its own script does, until that ends."""

    def __init__(self, url: str) -> None:
        super().__init__(daemon=True)
        self.pages = 0
        self._url = url

    def run(self) -> None:
        with suppress(httpx.TransportError), httpx.Client(base_url=self._url, timeout=None) as client:
            self._load(client)
            with client.stream("GET", "/changes") as stream:
                for line in stream.iter_lines():
                    if line == "event: changed":
                        self._load(client)

    def _load(self, client: httpx.Client) -> None:
        client.get("/").raise_for_status()
        self.pages += 1


@contextmanager
def watched(paths: list[Path], seen: dict[str, list[float]]) -> Iterator[None]:
    """Keeps a watch on `paths` with one reader; adds its pages and its CPU seconds to what was seen."""
    server = subprocess.Popen([*ORCHESTAI, "watch", *map(str, paths), "--port", "0"], stderr=subprocess.PIPE, text=True)
    try:
        assert server.stderr is not None
        url = next(word for line in server.stderr for word in line.split() if word.startswith("http://"))
        reader = Reader(url.rstrip("/"))
        reader.start()
        while not reader.pages:
            time.sleep(0.1)
        before, pages = _cpu_s(server.pid), reader.pages
        yield
        seen["cpu_s"].append(_cpu_s(server.pid) - before)
        seen["pages"].append(reader.pages - pages)
    finally:
        server.terminate()
        server.wait()


def _cpu_s(pid: int) -> float:
    times = psutil.Process(pid).cpu_times()
    return times.user + times.system


def measure(run: Path, folder: Path, pairs: int, updates: int) -> dict[str, Any]:
    """Seconds of each training alone and watched, and what the watch did meanwhile."""
    log, number = repeated_log(run, folder), count()
    took: dict[str, list[float]] = {"alone": [], "watched": []}
    seen: dict[str, list[float]] = {"cpu_s": [], "pages": []}

    def train(way: str) -> None:
        output = folder / f"phase2-{next(number)}"
        output.mkdir()
        command = [*ORCHESTAI, "train-phase2", "--checkpoint", str(run / "phase1_best.pth")]
        command += ["--output_dir", str(output), "--updates", str(updates), "training.phase2_rl.eval_every=1"]

        def timed() -> None:
            started = time.perf_counter()
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            took[way].append(time.perf_counter() - started)

        if way == "alone":
            timed()
        else:
            with watched([output, log], seen):
                timed()
        console.print(f"{way}: {took[way][-1]:.1f} s")

    train("alone")  # reads what later ones find in the machine's memory
    took["alone"].clear()
    for pair in range(pairs):
        for way in ("alone", "watched") if pair % 2 == 0 else ("watched", "alone"):
            train(way)
    ratios = np.array(took["watched"]) / np.array(took["alone"])
    interval = bootstrap_mean(ratios)
    return {
        "seconds": took,
        "ratio": {"mean": interval.mean, "low": interval.low, "high": interval.high, "each": ratios.tolist()},
        "watch": {
            "pages": seen["pages"],
            "share_of_a_core": sum(seen["cpu_s"]) / sum(took["watched"]),
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path, help="a folder that `orchestai demo` made")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--updates", type=int, default=4)
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        figures = measure(args.run, Path(folder), args.pairs, args.updates)
    ratio, watch = figures["ratio"], figures["watch"]
    print(f"watched over alone: {ratio['mean']:.3f} [{ratio['low']:.3f}, {ratio['high']:.3f}], {args.pairs} pairs")
    print(f"the watch took {watch['share_of_a_core']:.1%} of a core and made {sum(watch['pages'])} pages")
    if args.json:
        figures |= {"updates": args.updates, "executions": 10_000, "versions": artifacts.versions()}
        args.json.write_text(json.dumps(figures, indent=1) + "\n")


if __name__ == "__main__":
    main()
