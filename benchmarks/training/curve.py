"""Draws a run: the reward of phase 2's batches, and of the plans for validation tasks.

python benchmarks/training/curve.py CHECKPOINTS/phase2_metrics.jsonl curve.png
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("metrics", type=Path)
    parser.add_argument("picture", type=Path)
    args = parser.parse_args()
    rows = [json.loads(line) for line in args.metrics.read_text().splitlines()]
    batches = [row for row in rows if "reward" in row]
    judged = [row for row in rows if "eval_reward" in row]
    figure, (rewards, shares) = plt.subplots(1, 2, figsize=(10, 3.5), layout="constrained")
    for axes, name, title in ((rewards, "reward", "reward"), (shares, "success", "share of tasks solved")):
        axes.plot(
            [row["update"] for row in batches], [row[name] for row in batches], color="0.7", label="sampled plans"
        )
        axes.plot(
            [row["update"] for row in judged], [row[f"eval_{name}"] for row in judged], "o-", label="validation, greedy"
        )
        axes.set(xlabel="update", title=title)
        axes.grid(alpha=0.3)
        axes.legend()
    figure.savefig(args.picture, dpi=110)


if __name__ == "__main__":
    main()
