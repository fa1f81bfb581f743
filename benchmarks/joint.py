"""What the composition suite loses when its planner also learns plans that others wrote.

    python benchmarks/joint.py COMPOSITION PLANS... [--seeds 3] [--output DIR] [--json FILE] [--set KEY=VALUE...]

COMPOSITION is the suite's training file, as `orchestai collect` and `prepare` make it (`make demo` leaves one), and
PLANS are those of other sources with their steps given, as `prepare-plans` makes them. Per seed, one planner is
trained on the suite alone and one on all files; both plan the suite's test tasks, and the plans are executed.
Differences are paired by task, with means over seeds; intervals are bootstrapped over tasks. What is finished in the
output folder is kept: interrupt and repeat the command to continue, and take another folder for other settings.
"""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from orchestai.config import Config, load_config
from orchestai.data.prepare_plans import prepare_plans
from orchestai.data.readers import READERS
from orchestai.evaluation.statistics import Values, bootstrap_mean, paired_difference
from orchestai.evaluation.systems.runner import Runner
from orchestai.execution.runtime import open_runtime
from orchestai.planner.checkpoint import load_planner, reference_of
from orchestai.storage import artifacts
from orchestai.tasks.splits import open_splits
from orchestai.training.rl.setup import Measurement, open_reward
from orchestai.training.supervised.run import LAST
from orchestai.training.supervised.train import train

CONFIG = Path(__file__).resolve().parent.parent / "configs" / "plans.yaml"
ALONE, JOINT = "alone", "joint"

console = Console()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("composition", type=Path)
    parser.add_argument("plans", type=Path, nargs="+")
    parser.add_argument("--seeds", type=int, default=3)
    parser.add_argument("--output", type=Path, default=Path("runs/joint"))
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    parser.add_argument(
        "--set", nargs="+", default=[], metavar="KEY=VALUE", help="settings other than configs/plans.yaml's"
    )
    args = parser.parse_args()
    config = load_config(CONFIG, args.set)
    data = {ALONE: args.output / f"{ALONE}.json", JOINT: args.output / f"{JOINT}.json"}
    for name, paths in {ALONE: [args.composition], JOINT: [args.composition, *args.plans]}.items():
        if not data[name].exists():
            console.print(prepare_plans(READERS["orchestai"], paths, config, data[name], given=True).table())
    solved: dict[str, list[Values]] = {ALONE: [], JOINT: []}
    for seed in range(args.seeds):
        for name, file in data.items():
            solved[name].append(solved_by(config, seed, file, args.output / f"{name}{seed}"))
    over_seeds = {name: np.mean(values, axis=0) for name, values in solved.items()}
    lost = paired_difference(over_seeds[JOINT], over_seeds[ALONE])
    table = Table(
        "trained on", "solved %", "95 %", "each seed", title=f"{lost.n} composition tasks, {args.seeds} seeds"
    )
    figures: dict[str, object] = {}
    for name, values in over_seeds.items():
        interval = bootstrap_mean(values)
        each = [float(100 * one.mean()) for one in solved[name]]
        figures[name] = interval.to_dict() | {"seeds": [one / 100 for one in each]}
        bounds = f"{100 * interval.low:.1f} to {100 * interval.high:.1f}"
        table.add_row(name, f"{100 * interval.mean:.1f}", bounds, ", ".join(f"{one:.1f}" for one in each))
    bounds = f"{100 * lost.low:+.1f} to {100 * lost.high:+.1f}"
    table.add_row("joint - alone", f"{100 * lost.mean:+.1f}", bounds, "")
    console.print(table)
    if args.json:
        overrides = f" --set {' '.join(args.set)}" if args.set else ""
        facts = {
            "difference": lost.to_dict(),
            "command": f"python benchmarks/joint.py COMPOSITION PLANS --seeds {args.seeds}{overrides}",
            "data_fingerprint": {name: artifacts.fingerprint(file.read_text()) for name, file in data.items()},
            "config": config.model_dump(mode="json", include={"planner": True, "training": {"phase1_supervised"}}),
            "versions": artifacts.versions(),
        }
        artifacts.write_json(args.json, figures | facts)


def solved_by(config: Config, seed: int, data: Path, folder: Path) -> Values:
    """(tasks,) 1 where the plan of a planner that was trained on `data` solved the test task, else 0."""
    done = folder / "solved.npy"
    if not done.exists():
        settings = config.training.phase1_supervised.model_copy(update={"seed": seed})
        training = config.training.model_copy(update={"phase1_supervised": settings})
        resume = (folder / LAST).exists()
        train(config.model_copy(update={"training": training}), data=data, output_dir=folder, resume=resume)
        solved = asyncio.run(execute(config, folder / LAST))
        with artifacts.replacing(done) as file:
            np.save(file, solved)
    values: Values = np.load(done)
    return values


async def execute(config: Config, checkpoint: Path) -> Values:
    tasks = open_splits(config.tasks).test[: config.tasks.limit]
    planner = load_planner(checkpoint, config.planner, config.workers)
    async with open_runtime(config.workers, config.execution, config.sandbox) as runtime:
        execute, concurrency = runtime.executor.execute, config.execution.concurrency
        measurement = Measurement(config.workers, tasks, execute, concurrency)
        reward = await open_reward(config.rewards, config.training.phase2_rl, reference_of(checkpoint), measurement)
        runner = Runner(runtime.executor, tasks, reward, config.tasks.unscorable_limit)
        row = await runner.row(checkpoint.parent.name, planner, lambda: None)
        runner.refuse_if_broken()
    return row.values("success")


if __name__ == "__main__":
    main()
