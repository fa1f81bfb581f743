"""How long an optimizer step of GRPO takes: ours beside TRL's `GRPOTrainer`, on the same model and the same lengths.

    python benchmarks/grpo.py [--model smollm2-135m|tiny|PATH] [--prompts 256,768] [--completions 64,128]
                              [--rounds 3] [--steps 2] [--threads 1] [--json FILE]

A step samples one group of 8 completions of full length after one prompt, scores them, and updates all weights by
AdamW, in float32 on the CPU. The sides (see `grpo_sides.py`) take turns, so that noise hits all alike, each time in a
new process, whose peak memory is measured; a process's first step does not count, and figures are medians over all
rounds. Seconds are by the clock; where other programs run on the machine, the CPU seconds beside them say more. Without
TRL (`pip install trl`; 1.12 and 1.16 were tried), ours is measured alone.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections import defaultdict
from dataclasses import asdict, dataclass
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from statistics import median
from typing import Any

from grpo_sides import GROUP, SIDES, Figures
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

from orchestai.storage import artifacts

RATIO_COMPLETION = 64
"""Tokens of the completions that `ratio_trl` is about."""


@dataclass(frozen=True)
class Setting:
    prompt: int
    completion: int


@dataclass(frozen=True)
class Row:
    """Medians of one side in one setting; `tokens_per_s` are completion tokens by the clock."""

    prompt: int
    completion: int
    side: str
    seconds: float
    sampling_s: float
    updating_s: float
    cpu_s: float
    sampling_cpu_s: float
    updating_cpu_s: float
    tokens_per_s: float
    peak_mb: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", default="smollm2-135m", help="a name or folder, or `tiny`")
    parser.add_argument("--prompts", default="256,768", help="tokens of the prompts")
    parser.add_argument("--completions", default="64,128", help="tokens of the completions")
    parser.add_argument("--sides", default=",".join(SIDES), help="who is compared")
    parser.add_argument("--rounds", type=int, default=3, help="processes of each side and setting")
    parser.add_argument("--steps", type=int, default=2, help="steps that count in each process")
    parser.add_argument("--threads", type=int, default=1, help="of each process")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    args = parser.parse_args()
    sides = [side for side in args.sides.split(",") if side == "ours" or find_spec("trl")]
    settings = [Setting(int(p), int(c)) for c in args.completions.split(",") for p in args.prompts.split(",")]
    found: dict[tuple[Setting, str], list[Figures]] = defaultdict(list)
    with Progress(console=Console(stderr=True)) as progress:
        task = progress.add_task("", total=args.rounds * len(settings) * len(sides))
        for _ in range(args.rounds):
            for setting in settings:
                for side in sides:
                    progress.update(task, description=f"{setting.prompt}+{setting.completion} {side}")
                    found[setting, side].append(measure(side, args.model, setting, args.steps, args.threads))
                    progress.advance(task)
    rows = [summary(setting, side, figures) for (setting, side), figures in found.items()]
    trl = version("trl") if find_spec("trl") else None
    Console().print(table(rows, f"{args.model}, {args.threads} threads, TRL {trl}"))
    if args.json:
        artifacts.write_json(args.json, report(rows) | {"model": args.model, "threads": args.threads, "trl": trl})


def measure(side: str, model: str, setting: Setting, steps: int, threads: int) -> Figures:
    script = Path(__file__).with_name("grpo_sides.py")
    command = [sys.executable, str(script), side, model, str(setting.prompt), str(setting.completion), str(steps)]
    environment = os.environ | {"OMP_NUM_THREADS": str(threads), "TOKENIZERS_PARALLELISM": "false"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
    if done.returncode:
        raise SystemExit(f"{side}: {done.stderr.strip()[-2000:]}")
    return Figures(**json.loads(done.stdout.strip().splitlines()[-1]))


def summary(setting: Setting, side: str, runs: list[Figures]) -> Row:
    def middle(name: str) -> float:
        return median(value for run in runs for value in getattr(run, name))

    def rest(whole: str, part: str) -> float:
        return median(a - b for run in runs for a, b in zip(getattr(run, whole), getattr(run, part), strict=True))

    return Row(
        **asdict(setting),
        side=side,
        seconds=middle("seconds"),
        sampling_s=middle("sampling_s"),
        updating_s=rest("seconds", "sampling_s"),
        cpu_s=middle("cpu_s"),
        sampling_cpu_s=middle("sampling_cpu_s"),
        updating_cpu_s=rest("cpu_s", "sampling_cpu_s"),
        tokens_per_s=GROUP * setting.completion / middle("seconds"),
        peak_mb=median(run.peak_mb for run in runs),
    )


def ratios(rows: list[Row], side: str, figure: str) -> dict[str, float]:
    """Prompt tokens -> `side`'s figure over ours."""
    of = {(row.prompt, row.side): getattr(row, figure) for row in rows if row.completion == RATIO_COMPLETION}
    return {str(prompt): of[prompt, side] / of[prompt, "ours"] for prompt, name in of if name == side}


def report(rows: list[Row]) -> dict[str, Any]:
    return {
        "ratio_trl": ratios(rows, "trl", "seconds"),
        "ratio_trl_cpu": ratios(rows, "trl", "cpu_s"),
        "ratio_trl_stock": ratios(rows, "trl stock", "seconds"),
        "ratio_trl_peak_memory": ratios(rows, "trl", "peak_mb"),
        "rows": [asdict(row) for row in rows],
    }


def table(rows: list[Row], title: str) -> Table:
    ours = {(row.prompt, row.completion): row for row in rows if row.side == "ours"}
    shown = Table(title=title)
    for name in Row.__dataclass_fields__:
        shown.add_column(name.replace("_per_s", "/s").replace("_", " "), justify="right")
    shown.add_column("over ours", justify="right")
    shown.add_column("CPU over ours", justify="right")
    for row in sorted(rows, key=lambda row: (row.completion, row.prompt, SIDES.index(row.side))):
        cells = [f"{value:.4g}" if isinstance(value, float) else str(value) for value in asdict(row).values()]
        beside = ours.get((row.prompt, row.completion))
        over = [f"{row.seconds / beside.seconds:.2f}", f"{row.cpu_s / beside.cpu_s:.2f}"] if beside else ["", ""]
        shown.add_row(*cells, *over)
    return shown


if __name__ == "__main__":
    main()
