"""How well workers are chosen on public outcome tables, by our estimate and by the field's routers.

    python benchmarks/tables.py DATA --tasks TASKS [--output runs/tables] [--new_workers]
        [--json docs/results/tables.json] [KEY=VALUE]...

With `--new_workers` each worker of RouterBench in turn is new: known by its price and by 0, 20 or 50 of its outcomes.

Beside the JSON stands an SVG of its name, which shows how often estimates come true.

DATA holds `routerbench/routerbench.jsonl.gz` and `routellm_mmlu/mmlu.jsonl.gz`, and TASKS is MBPP's
`sanitized-mbpp.json`, or its compressed copy. `orchestai evaluate --table` is run on both tables and on RouterBench's
replies to MBPP, and the reports are put together. What is finished in the output folder is kept:
interrupt and repeat the command to continue.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from orchestai.config import load_config
from orchestai.data.outcome_table import OutcomeTable, Values, nan_mean
from orchestai.data.table_readers import read_outcome_table
from orchestai.estimate.success import fit_success, learn
from orchestai.evaluation.tables.estimates import (
    Features,
    Fold,
    TableEstimates,
    attempts_of,
    expected_cost,
    queries_of,
)
from orchestai.evaluation.tables.evaluate import HeldOutPart, metrics_of_router, split_table
from orchestai.planner.slots.text_encoder import query_features
from orchestai.storage import artifacts

NAMES = {"routerbench": "routerbench", "routellm": "routellm_mmlu", "mbpp_replies": "mbpp_replies"}
"""What a table is called in its report, and here."""
DRAWS = 201


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
        "routerbench": routerbench,
        "routellm": ["--table", str(args.data / "routellm_mmlu/mmlu.jsonl.gz"), "--reader", "routellm"],
        "mbpp_replies": [
            *(*routerbench, "--run_replies", "--usd_per_1000", "0.5", "--seeds", "5"),
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
    if args.new_workers:
        table = read_outcome_table([args.data / "routerbench/routerbench.jsonl.gz"], "routerbench")
        features = query_features(table.texts, load_config(Path("config.yaml"), overrides).workers.models_dir)
        merged["routerbench"]["new_worker"] = leave_one_worker_out(table, features)
    artifacts.write_json(args.json, merged)
    draw_reliability(args.json.with_suffix(".svg"), merged)


def figures(report: dict[str, Any], name: str) -> dict[str, Any]:
    """What one report says of its table, with the facts beside the figures, but for the paths of its files."""
    own: dict[str, Any] = report[name] | report.get("answers", {})
    return own | {fact: report[fact] for fact in ("table", "versions") if fact in report}


def leave_one_worker_out(table: OutcomeTable, features: Features, seeds: Sequence[int] = (0, 1, 2)) -> dict[str, Any]:
    """AIQ by what is known of one worker, as means over all workers that are left out and all splits.

    That is nothing (`without`), its price and 0, 20 or 50 outcomes, or all (`full`); with paired differences of few
    outcomes to all, and of the price alone to nothing. How much words may say is chosen once per split, with all
    workers.
    """
    folds = split_table(table, seeds)
    found: dict[str, list[Values]] = {}
    for seed, split in zip(folds.seeds, folds.splits, strict=True):
        whole = Fold(table, split.train, features, folds.groups, seed)
        weights = folds.weights[split.test][:, :DRAWS]
        queries, prices = queries_of(table, split.train, features), nan_mean(table.cost_usd[split.train])
        fitted = fit_success(attempts_of(whole, queries, prices), seed=seed).estimate

        def value(known: str, fold: Fold, score: Values, cost: Values, split=split, weights=weights) -> None:
            metrics = metrics_of_router(HeldOutPart(fold, split.test, weights), "new", TableEstimates(score, cost))
            found.setdefault(known, []).append(metrics["aiq", "new"])

        score, cost = fitted.success(queries), expected_cost(whole, queries, prices)
        for worker, name in enumerate(table.workers):
            print(f"split {seed}: {name} is new", flush=True)
            value("full", whole, score, cost)
            never = score.copy()
            never[:, worker] = -1e9  # a score that no saving makes up for
            value("without", whole, never, cost)
            measured = split.train[np.isfinite(table.score[split.train, worker])]
            order = np.random.default_rng(seed).permutation(measured)
            for count in (0, 20, 50):
                hidden = np.setdiff1d(split.train, order[:count])
                masked = replace(table, score=table.score.copy(), cost_usd=table.cost_usd.copy())
                masked.score[hidden, worker] = masked.cost_usd[hidden, worker] = np.nan
                fold = replace(whole, table=masked)
                own = learn(attempts_of(fold, queries, prices), fitted.strengths, fitted.calibration)
                value(str(count), fold, own.success(queries), expected_cost(fold, queries, prices))
    means = {known: folds.mean(values) for known, values in found.items()}
    pairs = [("0", "full"), ("20", "full"), ("50", "full"), ("0", "without")]
    differences = {f"{a} - {b}": folds.interval(means[a] - means[b]).to_dict() for a, b in pairs}
    return {"aiq": {known: folds.interval(own).to_dict() for known, own in means.items()}, "differences": differences}


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
