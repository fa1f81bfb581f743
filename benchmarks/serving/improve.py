"""Whether a planner that serves improves from what people say of its answers, and a worse candidate is refused.

    python benchmarks/serving/improve.py loop --seed 0 [--folder runs/improve] [KEY=VALUE ...]
    python benchmarks/serving/improve.py worse --seed 0 --trials 20
    python benchmarks/serving/improve.py figures --json docs/results/improve.json
    python benchmarks/serving/improve.py sampling --json docs/results/improve.json

`loop`: a planner is trained on 300 logged runs of the composition suite. It serves 750 further instructions, each of
which gets its tests as feedback; `improve` makes a candidate, which is promoted if it is better beyond chance; so
again with another 750. Success is that of the planner that serves, on the suite's test split, which nothing here has
learned from. `worse`: candidates of the first round whose targets were exchanged between instructions. Stages that are
finished are kept in the folder. `sampling` adds to `figures` what the strongest sampling worker achieves on the test
split for as much money as each candidate spent: its samples of these tasks are recorded, those of others are not.
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

from orchestai import Orchestrator
from orchestai.cli.training import run_collect
from orchestai.config import load_config
from orchestai.data.prepare import prepare
from orchestai.errors import InfrastructureError, UserError
from orchestai.evaluation.statistics import bootstrap_mean, mean, mean_over_groups, proportion
from orchestai.evaluation.systems.runner import Runner
from orchestai.execution.contract.trimming import ContractError
from orchestai.execution.log import read_log
from orchestai.execution.reward import AbsoluteReward
from orchestai.execution.runtime import open_runtime
from orchestai.planner.serving import open_planner
from orchestai.serving.improvement.improve import Improvement, compare, repeated_asking, task_of
from orchestai.serving.improvement.registry import PlannerRegistry
from orchestai.serving.store import NO_KEY, Database, Feedback, FeedbackStore, ServedRuns
from orchestai.storage import artifacts
from orchestai.tasks.splits import divide
from orchestai.tasks.suites import load_suite
from orchestai.tasks.task import Task
from orchestai.training.supervised.train import train

LOGGED, SERVED, ROUNDS = 300, 1500, 2
ASIDE, WRONG = 80, 320
"""Instructions on which a worse candidate is compared, and examples that it learns from."""
SETTINGS = (
    "planner.min_confidence=0",
    "workers.cascade=[]",
    "training.phase1_supervised.mixture=[]",
    "training.phase1_supervised.mixture_augmentations=0",
    "training.phase1_supervised.synthetic_augmentations=300",
    "training.phase1_supervised.num_epochs=6",
    "training.phase2_rl.num_episodes=288",
    "training.phase2_rl.eval_every=12",
    "training.phase2_rl.eval_tasks=96",
)
ROUND = ("training.phase1_supervised.num_epochs=2", "training.phase1_supervised.learning_rate=5e-4")
"""What an improvement does otherwise than the first training."""


class Loop:
    """One seed's way from logged runs to the second improvement."""

    def __init__(self, folder: Path, seed: int, overrides: Sequence[str]) -> None:
        self.folder = folder / f"seed-{seed}"
        self.seed = seed
        seeds = (f"training.phase1_supervised.seed={seed}", f"training.phase2_rl.seed={seed}")
        self.first = load_config(Path("config.yaml"), [*SETTINGS, *seeds, *overrides])
        self.later = load_config(Path("config.yaml"), [*SETTINGS, *seeds, *ROUND, *overrides])
        self.registry = PlannerRegistry(self.folder / "planners")
        self.database = f"sqlite:///{self.folder / 'served.db'}"
        self.logs = self.folder / "served_logs"

    async def run(self) -> None:
        await self.once("base", self.base)
        await self.once("test base", self.tested)
        for turn in range(ROUNDS):
            await self.once(f"serve {turn}", lambda turn=turn: self.serve(turn))
            await self.once(f"improve {turn}", lambda turn=turn: self.improve(turn))
            await self.once(f"test {turn}", self.tested)

    async def once(self, name: str, work: Any) -> Any:
        path = self.folder / "stages" / f"{name.replace(' ', '-')}.json"
        if path.exists():
            return json.loads(path.read_text())
        began, cpu = time.monotonic(), time.process_time()
        print(f"seed {self.seed}: {name}", flush=True)
        found = await work()
        took = {"seconds": time.monotonic() - began, "cpu_seconds": time.process_time() - cpu}
        artifacts.write_json(path, found | took)
        print(f"seed {self.seed}: {name} {json.dumps(found | took)[:600]}", flush=True)
        return found

    async def base(self) -> dict[str, Any]:
        logs, data = self.folder / "logged", self.folder / "training_data.json"
        await run_collect(self.first, planner="reference", num_executions=LOGGED, output_dir=logs, seed=self.seed)
        report = prepare(logs, self.first, data)
        train(self.first, data=data, output_dir=self.folder / "base")
        self.registry.add(self.folder / "base" / "phase1_best.pth")
        return {"runs": report.executions, "tasks": report.tasks, "examples": report.train}

    def instructions(self) -> list[Task]:
        """Of the train split, in an order of the seed's, without what was logged."""
        logged = {record.instruction for record in read_log(self.folder / "logged").records}
        others = [task for task in load_suite("composition").split("train") if task.instruction not in logged]
        return random.Random(self.seed).sample(others, SERVED)

    async def serve(self, turn: int) -> dict[str, Any]:
        size = SERVED // ROUNDS
        tasks = self.instructions()[turn * size : (turn + 1) * size]
        current = self.registry.current
        assert current is not None
        answered = 0
        with Database.open(self.database) as database:
            runs, feedback = ServedRuns(database), FeedbackStore(database)
            checkpoint = self.registry.checkpoint(current.version)
            async with Orchestrator.open(checkpoint, self.later, log=self.logs) as orchestrator:

                async def ask(task: Task) -> bool:
                    try:
                        result = await orchestrator.run(task.instruction)
                    except (ContractError, InfrastructureError, UserError) as error:
                        print(f"{task.task_id}: {error}", flush=True)
                        return False
                    run_id = result.receipt.run_id
                    await asyncio.to_thread(runs.put, run_id, NO_KEY, None, result.receipt.model_dump(mode="json"))
                    await asyncio.to_thread(feedback.put, run_id, NO_KEY, Feedback(tests=task.test))
                    return True

                answered = sum(await asyncio.gather(*map(ask, tasks)))
        return {"asked": len(tasks), "answered": answered, "version": current.version}

    def said(self) -> dict[str, Feedback]:
        with Database.open(self.database) as database:
            return dict(FeedbackStore(database).all())

    async def improve(self, turn: int) -> dict[str, Any]:
        work = self.folder / f"round-{turn}-{int(time.time())}"
        seed_data = self.folder / "training_data.json"
        improvement = Improvement(self.later, self.logs, self.said(), self.registry, work, seed_data)
        lineage = await improvement.run()
        promoted = lineage.trial is not None and lineage.trial.is_better
        if promoted:
            self.registry.promote(lineage.version)
        return {"promoted": promoted, "work": str(work), **lineage.model_dump(mode="json")}

    async def tested(self) -> dict[str, Any]:
        """Success on the test split of the version that serves."""
        current = self.registry.current
        assert current is not None
        version = current.version
        for path in (self.folder / "stages").glob("test-*.json"):
            if (before := json.loads(path.read_text()))["version"] == version:
                return {key: before[key] for key in ("version", "success", "mean", "low", "high", "n")}
        tasks = load_suite("composition").split("test")
        config = self.later
        async with open_runtime(config.workers, config.execution, config.sandbox) as runtime:
            checkpoint = str(self.registry.checkpoint(version))
            planner = await open_planner(checkpoint, config.planner, config.workers, runtime.pool)
            plans = await asyncio.to_thread(planner.plan, tasks)
            slots = asyncio.Semaphore(config.execution.concurrency)

            async def solved(task: Task, workflow: Any) -> float | None:
                if workflow is None:
                    return 0.0
                async with slots:
                    execution = await runtime.executor.execute(task, workflow)
                return None if execution.fault is not None else float(execution.success)

            success = await asyncio.gather(*(solved(t, p.workflow) for t, p in zip(tasks, plans, strict=True)))
        known = np.array([np.nan if value is None else value for value in success])
        return {"version": version, "success": success, **bootstrap_mean(known).to_dict()}

    def aside(self) -> list[Task]:
        """What was kept aside of all that was served."""
        said, settings = self.said(), self.later.tasks
        runs = [record for record in read_log(self.logs).records if record.receipt is not None]
        parts = divide([record.instruction for record in runs], settings)
        kept = (run for run, part in zip(runs, parts, strict=True) if part == "test")
        tasks = (task_of(run.instruction, said[run.receipt.run_id], "test", settings) for run in kept if run.receipt)
        return [task for task in tasks if task is not None]

    async def worse(self, trial: int, aside: Sequence[Task]) -> dict[str, Any]:
        """A candidate that learned other instructions' targets, beside the planner that it goes on from."""
        stage = json.loads((self.folder / "stages" / "improve-0.json").read_text())
        data, folder = Path(stage["work"]) / "training_data.json", self.folder / "worse" / str(trial)
        shuffled = folder / "training_data.json"
        examples = random.Random(trial).sample(json.loads(data.read_text()), WRONG)
        artifacts.write_json(shuffled, exchanged(examples, trial))
        incumbent = self.registry.checkpoint(1)
        settings = (f"seed={trial}", "num_epochs=1", "learning_rate=5e-4", "lr_schedule=plateau")
        config = load_config(
            Path("config.yaml"), [*SETTINGS, *(f"training.phase1_supervised.{setting}" for setting in settings)]
        )
        train(config, data=shuffled, output_dir=folder / "phase1", start=incumbent)
        async with open_runtime(config.workers, config.execution, config.sandbox) as runtime:
            tasks = random.Random(trial).sample(list(aside), ASIDE)
            candidate = str(folder / "phase1" / "phase1_best.pth")
            found = await compare(config, tasks, str(incumbent), candidate, runtime)
        return {"promoted": found.is_better, **found.model_dump(mode="json")}


def exchanged(examples: list[dict[str, Any]], seed: int) -> list[dict[str, Any]]:
    """Workers, fallbacks and types of each plan are those of another of the same size."""
    draw, taken = random.Random(seed), {"worker", "fallback", "task_type"}
    by_size: dict[int, list[dict[str, Any]]] = {}
    for example in examples:
        by_size.setdefault(len(example["workflow"]["subtasks"]), []).append(example)
    for same in by_size.values():
        others = draw.sample([example["workflow"]["subtasks"] for example in same], len(same))
        for example, other in zip(same, others, strict=True):
            steps = [
                {key: value for key, value in own.items() if key not in taken}
                | {key: value for key, value in given.items() if key in taken}
                for own, given in zip(example["workflow"]["subtasks"], other, strict=True)
            ]
            example["workflow"] = {"subtasks": steps}
            example.pop("targets", None)
    return examples


def figures(folder: Path) -> dict[str, Any]:
    """Of all seeds in a folder."""
    seeds = {path.name: path / "stages" for path in sorted(folder.glob("seed-*"))}
    rows: dict[str, Any] = {}
    rises: dict[str, list[Any]] = {}
    for seed, stages in seeds.items():
        stage = {path.stem: json.loads(path.read_text()) for path in stages.glob("*.json")}
        tests = {name: stage[name] for name in ("test-base", "test-0", "test-1") if name in stage}
        success = {
            name: np.array([np.nan if value is None else value for value in row["success"]])
            for name, row in tests.items()
        }
        rows[seed] = {
            "test": {name: {key: row[key] for key in ("mean", "low", "high", "n")} for name, row in tests.items()},
            "improvements": [
                {key: stage[name][key] for key in ("promoted", "trial", "learned")}
                for name in ("improve-0", "improve-1")
                if name in stage
            ],
            "seconds": {name: round(row["seconds"]) for name, row in stage.items()},
        }
        for name in ("test-0", "test-1"):
            if name in success:
                rises.setdefault(name, []).append(success[name] - success["test-base"])
    worse = [json.loads(path.read_text()) for path in sorted(folder.glob("seed-*/stages/worse-*.json"))]
    return {
        "logged_runs": LOGGED,
        "served_instructions": SERVED,
        "settings": [*SETTINGS, *ROUND],
        "seeds": rows,
        "rise_over_base": {name: mean_over_groups(each).to_dict() for name, each in rises.items()},
        "worse": {
            "trials": len(worse),
            "promoted": sum(row["promoted"] for row in worse),
            "differences": [row["difference"] for row in worse],
        },
        "versions": artifacts.versions(),
    }


async def sampling(found: dict[str, Any], tasks: Sequence[Task]) -> None:
    """Add `sampling_on_test` to each improvement: sample-and-check at the candidate's mean cost, from the recording.

    Args:
        found: what `figures` gives.
        tasks: of the test split.
    """
    config = load_config(Path("config.yaml"), ["workers.on_miss=unscorable"])
    async with open_runtime(config.workers, config.execution, config.sandbox) as runtime:
        success_alone = AbsoluteReward(1.0, config.rewards.success, None, 0.0, 0.0, 0.0)
        runner = Runner(runtime.executor, tasks, success_alone, unscorable_limit=0.0)
        for improvement in (each for seed in found["seeds"].values() for each in seed["improvements"]):
            row, how = await repeated_asking(config, runner, improvement["trial"]["candidate_usd"])
            if row is None:
                raise UserError(how)
            usd, success = mean(row.values("cost_usd")), proportion(row.values("success"))
            improvement["sampling_on_test"] = {"how": how, "usd": usd, **success.to_dict()}
            print(improvement["sampling_on_test"], flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("work", choices=("loop", "worse", "figures", "sampling"))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, default=Path("runs/improve"))
    parser.add_argument("--trials", type=int, default=20)
    parser.add_argument("--json", type=Path)
    parser.add_argument("overrides", nargs="*")
    arguments = parser.parse_args()
    if arguments.work == "figures":
        found = figures(arguments.folder)
        if arguments.json is not None:
            artifacts.write_json(arguments.json, found)
        print(json.dumps(found, indent=1))
        return
    if arguments.work == "sampling":
        found = json.loads(arguments.json.read_text())
        asyncio.run(sampling(found, load_suite("composition").split("test")))
        artifacts.write_json(arguments.json, found)
        return
    loop = Loop(arguments.folder, arguments.seed, arguments.overrides)
    asyncio.run(loop.run() if arguments.work == "loop" else every(loop, arguments.trials))


async def every(loop: Loop, trials: int) -> None:
    aside = loop.aside()
    for trial in range(trials):
        await loop.once(f"worse {trial}", lambda trial=trial: loop.worse(trial, aside))


if __name__ == "__main__":
    main()
