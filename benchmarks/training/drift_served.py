"""Whether phase 2 finds from served runs that the pool has changed, and how many judged runs that takes.

    python -m benchmarks.training.drift_served [--changes worse ...] [--seeds 0 1 2] [--folder runs/drift] [--json FILE]

The planner that phase 1 of `benchmarks.training.drift` gave serves the changed pool, 200 instructions a round, none of
which it has seen; each gets its right answer as feedback. `improve` then makes a candidate from the log: phase 1 goes
on from the planner that serves, phase 2 follows, and the trial on what is kept aside decides whether it is promoted.
All other settings are `config.yaml`'s. Success, and the price of a plan, are those of the planner that serves after
each round, on 200 test tasks. Changes:

- `worse`: the expert for most operations fails. `gone`: it has left the pool. `better`: the worker that was mediocre at
  everything does everything well, for less than the experts ask.
- `dearer`: there are two equal experts, and the cheaper one doubles its price.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.training.drift import Run, best, price, task_line
from orchestai import Orchestrator
from orchestai.config import Config
from orchestai.evaluation.statistics import bootstrap_mean, mean_over_groups
from orchestai.planner.checkpoint import load_planner
from orchestai.serving.improvement.improve import Improvement
from orchestai.serving.improvement.registry import PlannerRegistry
from orchestai.serving.store import NO_KEY, Database, Feedback, FeedbackStore, ServedRuns
from orchestai.storage import artifacts
from orchestai.tasks.splits import open_splits
from orchestai.tasks.task import Task

CHANGES = ("worse", "gone", "better", "dearer")
ROUNDS, SERVED = 3, 200


class Served(Run):
    """One seed of one change, served."""

    def __init__(self, folder: Path, change: str, seed: int, overrides: Sequence[str]) -> None:
        super().__init__(folder, change, seed, ["planner.min_confidence=0", "planner.allow_new_pool=true", *overrides])
        self.folder = folder / "served" / change / str(seed)
        self.registry = PlannerRegistry(self.folder / "planners")
        self.database = f"sqlite:///{self.folder / 'served.db'}"

    async def run(self) -> dict[str, Any]:
        first, config = await self.begin(), self.config(self.change)
        splits, draw = open_splits(config.tasks), random.Random(f"served/{self.seed}")
        known = {task.instruction for part in (splits.train, splits.validation, splits.test) for task in part}
        lines = {line["instruction"]: line["answers"] for line in (task_line(draw) for _ in range(2 * ROUNDS * SERVED))}
        asked = [(words, answer) for words, answer in lines.items() if words not in known]
        self.registry.add(first)
        found: dict[str, Any] = {"change": self.change, "seed": self.seed, "rounds": []}
        found["possible"] = await self.solved([best(task, self.change) for task in splits.test], splits.test)
        found["at first"] = await self.measured(config, splits.test)
        for turn in range(ROUNDS):
            await self.serve(asked[turn * SERVED : (turn + 1) * SERVED], config)
            began = time.monotonic()
            lineage = await self.improve(config, turn)
            trial = lineage.trial
            assert trial is not None
            if trial.is_better:
                self.registry.promote(lineage.version)
            after = {"promoted": trial.is_better, "trial": trial.difference.model_dump(mode="json")}
            after |= {"seconds": round(time.monotonic() - began), **await self.measured(config, splits.test)}
            found["rounds"].append(after)
            print(self.change, self.seed, turn, after["promoted"], np.mean(after["success"]), after["usd"], flush=True)
        artifacts.write_json(self.folder / "figures.json", found)
        return found

    async def serve(self, asked: Sequence[tuple[str, str]], config: Config) -> None:
        checkpoint = self.registry.checkpoint(self.version)
        with Database.open(self.database) as database:
            runs, feedback = ServedRuns(database), FeedbackStore(database)
            async with Orchestrator.open(checkpoint, config, log=self.folder / "logs") as orchestrator:

                async def ask(instruction: str, answer: str) -> None:
                    receipt = (await orchestrator.run(instruction)).receipt
                    await asyncio.to_thread(runs.put, receipt.run_id, NO_KEY, None, receipt.model_dump(mode="json"))
                    await asyncio.to_thread(feedback.put, receipt.run_id, NO_KEY, Feedback(answer=answer))

                await asyncio.gather(*(ask(*one) for one in asked))

    async def improve(self, config: Config, turn: int) -> Any:
        with Database.open(self.database) as database:
            said = dict(FeedbackStore(database).all())
        work = self.folder / f"round-{turn}"
        return await Improvement(config, self.folder / "logs", said, self.registry, work).run()

    async def measured(self, config: Config, tasks: Sequence[Task]) -> dict[str, Any]:
        """Success on each task of the planner that serves, and what a plan of it costs on average."""
        planner = load_planner(self.registry.checkpoint(self.version), config.planner, config.workers)
        plans = [plan.workflow for plan in planner.plan(tasks)]
        asked = [step.worker for plan in plans if plan is not None for step in plan.subtasks]
        usd = sum(price(self.change, worker) for worker in asked) / len(tasks)
        return {"version": self.version, "success": await self.solved(plans, tasks), "usd": usd}

    @property
    def version(self) -> int:
        current = self.registry.current
        assert current is not None
        return current.version


def report(runs: Sequence[dict[str, Any]]) -> dict[str, Any]:
    rows = {}
    for change in dict.fromkeys(run["change"] for run in runs):
        its = [run for run in runs if run["change"] == change]
        row: dict[str, Any] = {"possible": mean_over_groups([np.array(run["possible"]) for run in its]).to_dict()}
        for turn in range(ROUNDS + 1):
            states = [run["rounds"][turn - 1] if turn else run["at first"] for run in its]
            row[f"{turn * SERVED} judged runs"] = {
                "success": mean_over_groups([np.array(state["success"]) for state in states]).to_dict(),
                "each seed": [bootstrap_mean(np.array(state["success"])).mean for state in states],
                "usd": [state["usd"] for state in states],
                "promoted": [state.get("promoted") for state in states],
                "seconds": [state.get("seconds") for state in states],
            }
        rows[change] = row
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--changes", nargs="+", choices=CHANGES, default=CHANGES)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--folder", type=Path, default=Path("runs/drift"))
    parser.add_argument("--json", type=Path)
    parser.add_argument("overrides", nargs="*")
    args = parser.parse_intermixed_args()
    runs = []
    for seed in args.seeds:
        for change in args.changes:
            served = Served(args.folder, change, seed, args.overrides)
            path = served.folder / "figures.json"
            runs.append(json.loads(path.read_text()) if path.exists() else asyncio.run(served.run()))
    found = report(runs)
    print(json.dumps(found, indent=1))
    if args.json:
        before = json.loads(args.json.read_text()) if args.json.exists() else {}
        artifacts.write_json(args.json, {**before, "served": found})


if __name__ == "__main__":
    main()
