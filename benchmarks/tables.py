"""How well workers are chosen on public outcome tables, by our estimate and by the field's routers.

    python benchmarks/tables.py DATA --tasks TASKS [--output runs/tables] [--new_workers]
        [--json docs/results/tables.json] [KEY=VALUE]...

Beside the JSON stands an SVG of its name, which shows how often estimates come true.

DATA holds `routerbench/routerbench.jsonl.gz` and `routellm_mmlu/mmlu.jsonl.gz`, and TASKS is MBPP's
`sanitized-mbpp.json`, or its compressed copy. `orchestai evaluate --table` is run on both tables and on RouterBench's
replies to MBPP, three splits each, and the reports are put together. What is finished in the output folder is kept:
interrupt and repeat the command to continue.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.figure import Figure

from orchestai.storage import artifacts

NAMES = {"routerbench": "routerbench", "routellm": "routellm_mmlu", "mbpp_replies": "mbpp_replies"}
"""What a table is called in its report, and here."""
CASCADE = "mistralai/mixtral-8x7b-chat,gpt-3.5-turbo-1106,claude-instant-v1"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--tasks", type=Path, required=True)
    parser.add_argument("--output", type=Path, default=Path("runs/tables"))
    parser.add_argument("--new_workers", action="store_true", help="also leave each worker of RouterBench out")
    parser.add_argument("--json", type=Path, default=Path("docs/results/tables.json"))
    args, overrides = parser.parse_known_args()
    routerbench = ["--table", str(args.data / "routerbench/routerbench.jsonl.gz"), "--reader", "routerbench"]
    commands = {
        "routerbench": [*routerbench, *(["--new_workers"] if args.new_workers else [])],
        "routellm": ["--table", str(args.data / "routellm_mmlu/mmlu.jsonl.gz"), "--reader", "routellm"],
        "mbpp_replies": [
            *(*routerbench, "--run_replies", "--cascade", CASCADE),
            *("tasks.suite=mbpp", f"tasks.path={args.tasks}"),
        ],
    }
    merged: dict[str, Any] = {}
    for name, command in commands.items():
        report = args.output / f"{name}.json"
        if not report.exists():
            whole = [sys.executable, "-m", "orchestai.cli", "evaluate-table", *command, "--json", str(report)]
            subprocess.run([*whole, *overrides], check=True)
        merged[NAMES[name]] = figures(json.loads(report.read_text()), name)
    artifacts.write_json(args.json, merged)
    draw_reliability(args.json.with_suffix(".svg"), merged)


def figures(report: dict[str, Any], name: str) -> dict[str, Any]:
    """What one report says of its table, with the facts beside the figures, but for the paths of its files."""
    own: dict[str, Any] = report[name] | report.get("replies", {})
    return own | {fact: report[fact] for fact in ("table", "new_worker", "versions") if fact in report}


def draw_reliability(path: Path, merged: dict[str, Any]) -> None:
    """Draw mean score over mean estimate of our estimate in bins of equal numbers of outcomes, a panel per table."""
    matplotlib.rcParams["svg.hashsalt"] = "tables"
    panels = {name: own["reliability"]["ours"] for name, own in merged.items() if "reliability" in own}
    figure = Figure(figsize=(3 * len(panels), 3), layout="constrained")
    for axes, (name, bins) in zip(figure.subplots(1, len(panels), squeeze=False)[0], panels.items(), strict=True):
        estimated, scored, _ = zip(*bins, strict=True)
        axes.plot([0, 1], [0, 1], color="#b0b0b0", linewidth=1)
        axes.plot(estimated, scored, color="#c1272d", marker="o", markersize=3, linewidth=1)
        axes.set(title=name, xlabel="estimated", ylabel="scored", xlim=(0, 1), ylim=(0, 1), aspect="equal")
    figure.savefig(path, metadata={"Date": None})


if __name__ == "__main__":
    main()
