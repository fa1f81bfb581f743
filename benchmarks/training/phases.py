"""Phase 2 less phase 1 over several seeds, paired by held-out task: the demo, almanac, or another configuration.

    python -m benchmarks.training.phases config.yaml --executions 2400 --folder runs/phases/demo --json FILE
    python -m benchmarks.training.phases examples/almanac/config.yaml --executions 6400 --without smol-open-book \\
        --folder runs/phases/almanac --json FILE tasks.eval_split=fresh

The reference planner's executions are collected once; each seed prepares them and trains both phases, as the
configuration says. Greedy plans of both run on the tasks of `tasks.eval_split`. What is finished in the folder is kept.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import time
from pathlib import Path
from typing import Any

import numpy as np

from orchestai.cli.training import run_collect
from orchestai.config import Config, load_config
from orchestai.data.prepare import prepare
from orchestai.evaluation.held_out import held_out_tasks
from orchestai.evaluation.statistics import mean_over_groups
from orchestai.evaluation.systems.runner import Runner
from orchestai.execution.reward import reward_form
from orchestai.execution.runtime import open_runtime
from orchestai.planner.checkpoint import load_planner, reference_of, seen_by
from orchestai.storage import artifacts
from orchestai.tasks.splits import open_splits
from orchestai.training.rl.run_state import BEST as PHASE2
from orchestai.training.rl.setup import train as train_phase2
from orchestai.training.supervised.run import BEST as PHASE1
from orchestai.training.supervised.train import train as train_phase1


def configure(options: argparse.Namespace, seed: int) -> Config:
    """The configuration with a seed, but for workers that are left out."""
    seeds = [f"training.phase1_supervised.seed={seed}", f"training.phase2_rl.seed={seed}"]
    config = load_config(options.config, [*options.overrides, *seeds])
    pool = {name: worker for name, worker in config.workers.pool.items() if name not in options.without}
    cascade = tuple(name for name in config.workers.cascade if name in pool)
    workers = config.workers.model_copy(update={"pool": pool, "cascade": cascade})
    return config.model_copy(update={"workers": workers})


async def measure(options: argparse.Namespace, seed: int) -> dict[str, Any]:
    """Success and cost of each held-out task by both phases, and the seconds that training took."""
    config, folder, logs = configure(options, seed), options.folder / str(seed), options.folder / "logs"
    if not logs.exists():
        await run_collect(config, planner="reference", num_executions=options.executions, output_dir=logs)
    began = time.monotonic()
    if not (folder / PHASE1).exists():
        prepare(logs, config, folder / "training_data.json")
        train_phase1(config, data=folder / "training_data.json", output_dir=folder)
    middle = time.monotonic()
    if not (folder / PHASE2).exists():
        await train_phase2(config, checkpoint=folder / PHASE1, output_dir=folder)
    found: dict[str, Any] = {"seconds": [round(middle - began), round(time.monotonic() - middle)]}
    paths = {"phase 1": folder / PHASE1, "phase 2": folder / PHASE2}
    tasks = held_out_tasks(open_splits(config.tasks), {name: seen_by(path) for name, path in paths.items()}).kept
    reward = reward_form(config.rewards, config.training.phase2_rl, reference_of(paths["phase 2"]))
    assert reward is not None
    async with open_runtime(config.workers, config.execution, config.sandbox) as runtime:
        runner = Runner(runtime.executor, tasks, reward, config.tasks.unscorable_limit)
        for name, path in paths.items():
            planner = load_planner(path, config.planner, config.workers)
            row = await runner.row(name, planner, lambda: None)
            found[name] = {field: row.values(field).tolist() for field in ("success", "cost_usd")}
    artifacts.write_json(folder / "figures.json", found)
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("config", type=Path)
    parser.add_argument("--executions", type=int, required=True, help="that are collected")
    parser.add_argument("--without", nargs="+", default=[], help="workers that are left out of the pool")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--folder", type=Path, required=True)
    parser.add_argument("--json", type=Path)
    parser.add_argument("overrides", nargs="*")
    options = parser.parse_intermixed_args()
    rows = {}
    groups: dict[str, list[Any]] = {"phase 1": [], "phase 2": [], "phase 2 less phase 1": [], "cost": []}
    for seed in options.seeds:
        path = options.folder / str(seed) / "figures.json"
        run = json.loads(path.read_text()) if path.exists() else asyncio.run(measure(options, seed))
        first, second = (np.array(run[name]["success"], dtype=float) for name in ("phase 1", "phase 2"))
        cost = np.subtract(*(np.array(run[name]["cost_usd"], dtype=float) for name in ("phase 2", "phase 1")))
        for values, name in zip((first, second, second - first, cost), groups, strict=True):
            groups[name].append(values)
        rows[seed] = {name: mean_over_groups(values[-1:]).to_dict() for name, values in groups.items()}
        print(seed, json.dumps(rows[seed]), run["seconds"], flush=True)
    found = {name: mean_over_groups(values).to_dict() for name, values in groups.items()}
    print(json.dumps(found, indent=1))
    if options.json:
        artifacts.write_json(options.json, {"all": found, "seeds": rows, "versions": artifacts.versions()})


if __name__ == "__main__":
    main()
