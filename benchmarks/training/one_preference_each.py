"""Train a planner for each of nine preferences alone, from one phase 1, for `preferences.py --beside`.

    python benchmarks/training/one_preference_each.py --checkpoint checkpoints/phase1_best.pth --output DIR
    python benchmarks/training/preferences.py --checkpoint checkpoints/phase1_best.pth --logs execution_logs \\
        --beside DIR/*/phase2_last.pth --output FILE.json

One that was interrupted is gone on with by the same command. The reward of each is what `prefer` ranks by: success less
the weight of price times the cost in those of a typical execution, scaled so that both weights add up to `alpha`.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
from pathlib import Path

from orchestai.evaluation.systems.preference_sweep import PREFERENCES
from orchestai.planner.checkpoint import forecaster_of

ALPHA = 10.0


def train(checkpoint: Path, folder: Path, prefer: float, typical_usd: float, overrides: list[str]) -> None:
    cost = (1 - prefer) ** 2 / ((1 - prefer) ** 2 + prefer**2)
    reward = {
        "alpha": ALPHA * (1 - cost),
        "beta": ALPHA * cost / typical_usd,
        "gamma_latency": 0.0,
        "shaped_reward": 0.0,
    }
    weights = [f"training.phase2_rl.{name}={weight:.6g}" for name, weight in reward.items()]
    command = [sys.executable, "-m", "orchestai.cli", "train-phase2", "--checkpoint", str(checkpoint)]
    resume = ["--resume"] if (folder / "phase2_state.pt").exists() else []
    subprocess.run([*command, "--output_dir", str(folder), *resume, *weights, *overrides], check=True)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkpoint", type=Path, default=Path("checkpoints/phase1_best.pth"))
    parser.add_argument("--output", type=Path, required=True)
    parser.add_argument("overrides", nargs="*")
    asked = parser.parse_args()
    forecaster = forecaster_of(asked.checkpoint)
    if forecaster is None:
        parser.error(f"{asked.checkpoint} has no estimate of its workers, which says what a typical execution costs")
    for prefer in PREFERENCES:
        folder = asked.output / f"prefer-{prefer:g}"
        train(asked.checkpoint, folder, prefer, forecaster.estimate.typical_usd, asked.overrides)
