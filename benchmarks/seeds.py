"""What the evaluations of several seeds say together: mean and 95 % interval over the seeds.

    python benchmarks/seeds.py runs/seed*/evaluation.json [--json FILE]

A seed's evaluation is made by

    orchestai train-phase1 --data DATA --output_dir DIR training.phase1_supervised.seed=1
    orchestai train-phase2 --checkpoint DIR/phase1_best.pth --output_dir DIR training.phase2_rl.seed=1
    orchestai evaluate --phase1 DIR/phase1_best.pth --checkpoint DIR/phase2_best.pth --logs LOGS \\
      --output DIR/evaluation.json

The intervals are Student's t over seeds; those over tasks are in each evaluation.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from orchestai.storage import artifacts

T_975 = {2: 12.706, 3: 4.303, 4: 3.182, 5: 2.776, 6: 2.571, 7: 2.447, 8: 2.365, 9: 2.306, 10: 2.262}
"""Quantiles of Student's t with one degree of freedom less than the number of seeds."""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("evaluations", nargs="+", type=Path, help="evaluation.json of each seed (2 to 10 of them)")
    parser.add_argument("--json", type=Path)
    args = parser.parse_args()
    if len(args.evaluations) not in T_975:
        parser.error(f"{len(args.evaluations)} evaluations; give 2 to 10")
    runs = [json.loads(path.read_text()) for path in args.evaluations]
    prints = {run["tasks_fingerprint"] for run in runs}
    if len(prints) > 1:
        parser.error("the evaluations are of different tasks; evaluate all seeds on the same split")
    figures = {name: summarize(values) for name, values in collect(runs).items()}
    table = Table("figure", "mean", "95 % over seeds", "each", title=f"{len(runs)} seeds")
    for name, figure in figures.items():
        low, high = figure["ci"]
        each = ", ".join(f"{value:.4g}" for value in figure["each"])
        table.add_row(name, f"{figure['mean']:.4g}", f"{low:.4g} to {high:.4g}", each)
    Console(width=120).print(table)
    if args.json is not None:
        artifacts.write_json(
            args.json, {"figures": figures, "tasks_fingerprint": prints.pop(), "n": runs[0]["rows"][0]["n"]}
        )


def collect(runs: Sequence[dict[str, Any]]) -> dict[str, list[float]]:
    """The figures of the trained planners, by name, one value per run."""
    found: dict[str, list[float]] = {}
    for run in runs:
        rows = {row["name"]: row for row in run["rows"]}
        for planner in run["oracle_shares"]:
            for key in ("success", "reward", "cost_usd", "latency_ms"):
                found.setdefault(f"{planner}: {key}", []).append(rows[planner][key])
            found.setdefault(f"{planner}: share of the oracle's reward", []).append(run["oracle_shares"][planner])
            found.setdefault(f"{planner}: exact decompositions", []).append(run["decompositions"][planner]["exact"])
        for difference in run["differences"]:
            if difference["of"] in run["oracle_shares"] and difference["to"] in run["oracle_shares"]:
                name = f"{difference['of']} - {difference['to']}"
                for key in ("reward", "success"):
                    found.setdefault(f"{name}: {key}", []).append(difference[key]["mean"])
    return found


def summarize(values: Sequence[float]) -> dict[str, Any]:
    """Mean and t-interval of the mean."""
    mean = statistics.fmean(values)
    half = T_975[len(values)] * statistics.stdev(values) / len(values) ** 0.5
    return {"mean": mean, "ci": [mean - half, mean + half], "each": list(values)}


if __name__ == "__main__":
    main()
