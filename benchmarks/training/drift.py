"""What phase 2 is for: a pool that changed since its executions were logged, and workers that only work together.

    python -m benchmarks.training.drift [--changes takeover ...] [--seeds 0 1 2 3 4] [--folder runs/drift] [--json FILE]
                                        [--fresh] [--finished] [KEY=VALUE ...]

Tasks are two or three operations on a word, without visible checks; the pool is five functions with fixed skills. Phase
1 learns from 1,640 logged executions with random workers, in four epochs. Then the pool changes, while cards and prices
stay, and phase 2 goes on from phase 1 for 40 updates, all as `config.yaml` has it. All figures are of the changed pool,
on 200 test tasks: phase 1 as it was; phase 2; a bandit (Thompson sampling over the workers of each operation, which it
is told); and, with `--fresh`, phase 1 anew from fresh random executions; these two with as many calls of workers as
phase 2 took. `possible` asks the best worker for each step. What is finished in the folder is kept. Changes:

- `same`: nothing changes.
- `takeover`: the expert for most operations fails, and the worst worker takes over.
- `exchange`: the two experts exchange their skills.
- `decline`: the expert for most operations becomes mediocre, and the worker that was so becomes good.
- `pairs`: nothing changes, but two workers hand on in a shorthand of their own: right 97 % of the time on steps of
  their own kind among each other, and never beside others.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import shutil
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from omegaconf import OmegaConf

from benchmarks.training.drift_workers import OPERATIONS, asked_for, calls, work
from orchestai.cli.training import run_collect
from orchestai.config import Config, load_config
from orchestai.data.prepare import prepare
from orchestai.evaluation.statistics import mean_over_groups
from orchestai.planner.checkpoint import load_planner
from orchestai.rewards.answers import exact_match
from orchestai.storage import artifacts
from orchestai.tasks.splits import open_splits
from orchestai.tasks.task import Task
from orchestai.training.rl.run_state import BEST as PHASE2
from orchestai.training.rl.setup import train as train_phase2
from orchestai.training.supervised.run import BEST as PHASE1
from orchestai.training.supervised.train import train as train_phase1
from orchestai.workflow import Workflow

LOGGED, TASKS, UPDATES = 1640, {"train": 656, "validation": 164, "test": 200}, 40
SPELLING = ("reverse", "sort", "no vowels", "double", "shift")
TURNING = ("rotate", "ends", "mirror")
Skills = dict[str, dict[str, float]]
GOOD, FAIR, POOR, BAD = 0.97, 0.6, 0.3, 0.03
CARDS = {
    "speller": ("Spells, sorts and rewrites words letter by letter.", 4e-6),
    "turner": ("Turns words around and exchanges their ends.", 4e-6),
    "clerk": ("Does all kinds of work on words.", 3e-6),
    "intern": ("Helps out with words.", 3e-6),
    "guesser": ("Answers at once, whatever is asked. Nearly free.", 1e-6),
}
CHANGES = ("same", "takeover", "exchange", "decline", "pairs")
BEFORE = {"pairs": "pairs", "dearer": "twin"}
"""The pool that executions were logged with, where it is another one."""


def skill(of_spelling: float, of_turning: float) -> dict[str, float]:
    return dict.fromkeys(SPELLING, of_spelling) | dict.fromkeys(TURNING, of_turning)


def skills(change: str) -> Skills:
    """What each worker can do after a change."""
    pool = {
        "speller": skill(GOOD, BAD),
        "turner": skill(BAD, GOOD),
        "clerk": skill(FAIR, FAIR),
        "intern": skill(BAD, BAD),
        "guesser": skill(POOR, POOR),
    }
    if change == "takeover":
        pool |= {"speller": skill(BAD, BAD), "intern": skill(GOOD, BAD)}
    if change == "exchange":
        pool |= {"speller": skill(BAD, GOOD), "turner": skill(GOOD, BAD)}
    if change == "decline":
        pool |= {"speller": skill(0.5, BAD), "clerk": skill(GOOD, FAIR)}
    if change in ("worse", "gone"):
        pool |= {"speller": skill(BAD, BAD)}
    if change == "better":
        pool |= {"clerk": skill(GOOD, GOOD)}
    if change in ("twin", "dearer"):
        pool |= {"intern": pool["speller"]}
    return pool


def price(change: str, worker: str) -> float:
    """Of a call, in US dollars."""
    if change in ("twin", "dearer") and worker == "intern":
        return 5e-6
    return CARDS[worker][1] * (2 if change == "dearer" and worker == "speller" else 1)


def options(change: str, worker: str) -> dict[str, Any]:
    """Arguments of `work` beside what it is asked."""
    pair = change == "pairs" and worker in ("speller", "turner")
    return {"name": worker, "skills": skills(change)[worker], "pair": pair}


class Run:
    """One seed of one change."""

    def __init__(self, folder: Path, change: str, seed: int, overrides: Sequence[str], fresh: bool = False) -> None:
        self.fresh = fresh
        self.folder, self.change, self.seed = folder / change / str(seed), change, seed
        self.before = folder / BEFORE.get(change, "logged") / str(seed)
        seeds = [f"training.phase1_supervised.seed={seed}", f"training.phase2_rl.seed={seed}"]
        lengths = ["training.phase1_supervised.num_epochs=4", f"training.phase2_rl.num_updates={UPDATES}"]
        self.overrides = [*seeds, *lengths, *overrides]
        write_tasks(self.before / "words.jsonl", seed)

    def config(self, change: str) -> Config:
        """The tasks and the pool as it is after a change; all else is as the repository has it."""
        pool = {
            name: {
                "kind": "function",
                "function": "benchmarks.training.drift_workers:work",
                "options": options(change, name),
                "card": card,
                "price_per_call_usd": price(change, name),
            }
            for name, (card, _) in CARDS.items()
            if (change, name) != ("gone", "speller")
        }
        tasks = {"suite": "file", "path": str(self.before / "words.jsonl"), "scorer": "exact"}
        path = self.folder / f"{change}.yaml"
        path.parent.mkdir(parents=True, exist_ok=True)
        training = OmegaConf.to_container(OmegaConf.load("config.yaml"))["training"]
        training["phase2_rl"]["credit"] = "plan"  # steps read each other's texts
        path.write_text(
            json.dumps({"workers": {"pool": pool, "cache_dir": None}, "tasks": tasks, "training": training})
        )
        return load_config(path, self.overrides)

    async def measure(self) -> dict[str, Any]:
        """Success on each test task of everything that is compared, and what it took."""
        found: dict[str, Any] = {"change": self.change, "seed": self.seed}
        began = time.monotonic()
        old, later = await self.begin(), self.config(self.change)
        found["seconds_phase1"] = time.monotonic() - began
        test = open_splits(later.tasks).test
        found["phase 1"] = await self.tested(old, later, test)
        found["possible"] = await self.solved([best(task, self.change) for task in test], test)
        found |= await self.phase2(later, old)
        found["phase 2"] = await self.tested(self.folder / "phase2" / PHASE2, later, test)
        bandit = await self.bandit(open_splits(later.tasks).train, found["calls"])
        found["bandit"] = await self.solved([bandit.plan(task) for task in test], test)
        if self.fresh:
            fresh = await self.phase1(later, self.folder / "fresh", round(found["calls"] / 2.5))
            found["fresh executions"] = await self.tested(fresh, later, test)
        artifacts.write_json(self.folder / "figures.json", found)
        return found

    async def begin(self) -> Path:
        """The planner of before the change."""
        return await self.phase1(self.config(BEFORE.get(self.change, "same")), self.before, LOGGED)

    async def phase2(self, config: Config, start: Path) -> dict[str, Any]:
        """Calls of workers and seconds that it took."""
        path = self.folder / "phase2_took.json"
        if not path.exists():
            shutil.rmtree(self.folder / "phase2", ignore_errors=True)
            calls.clear()
            began = time.monotonic()
            summary = await train_phase2(config, checkpoint=start, output_dir=self.folder / "phase2")
            if summary.signal is not None:
                raise SystemExit(summary.stopped)
            artifacts.write_json(path, {"calls": calls.total(), "seconds_phase2": time.monotonic() - began})
        return json.loads(path.read_text())

    async def phase1(self, config: Config, folder: Path, executions: int) -> Path:
        if not (folder / "phase1" / PHASE1).exists():
            await run_collect(
                config, planner="reference", num_executions=executions, output_dir=folder / "logs", seed=self.seed
            )
            prepare(folder / "logs", config, folder / "training_data.json")
            train_phase1(config, data=folder / "training_data.json", output_dir=folder / "phase1")
        return folder / "phase1" / PHASE1

    async def tested(self, checkpoint: Path, config: Config, tasks: Sequence[Task]) -> list[float]:
        planner = load_planner(checkpoint, config.planner, config.workers)
        return await self.solved([plan.workflow for plan in planner.plan(tasks)], tasks)

    async def solved(self, plans: Sequence[Workflow | None], tasks: Sequence[Task]) -> list[float]:
        """1.0 for each task that its plan solves, its workers asked directly."""
        return [
            0.0 if plan is None else await self._solved(plan, task) for plan, task in zip(plans, tasks, strict=True)
        ]

    async def _solved(self, plan: Workflow, task: Task) -> float:
        texts: dict[str, str] = {}
        for step in plan.order():
            inputs = {parent: texts[parent] for parent in step.depends_on}
            texts[step.id] = await work(step.instruction, inputs, **options(self.change, step.worker))
        return exact_match(texts[plan.answering()], list(task.answers))

    async def bandit(self, tasks: Sequence[Task], budget: int) -> Bandit:
        bandit, draw = Bandit(self.seed), random.Random(self.seed)
        calls.clear()
        while calls.total() < budget:
            some = draw.sample(tasks, 16)
            plans = [bandit.plan(task, explore=True) for task in some]
            for plan, success in zip(plans, await self.solved(plans, some), strict=True):
                bandit.learn(plan, success)
        return bandit


class Bandit:
    """Thompson sampling over the workers of each operation, each credited with its plan's success."""

    def __init__(self, seed: int) -> None:
        self.draw = np.random.default_rng(seed)
        self.counts = {(operation, worker): [1.0, 1.0] for operation in OPERATIONS for worker in CARDS}

    def plan(self, task: Task, *, explore: bool = False) -> Workflow:
        def worth(operation: str, worker: str) -> float:
            won, lost = self.counts[operation, worker]
            return self.draw.beta(won, lost) if explore else won / (won + lost)

        return with_best_workers(task, lambda operation: max(CARDS, key=lambda worker: worth(operation, worker)))

    def learn(self, plan: Workflow, success: float) -> None:
        for step in plan.subtasks:
            counts = self.counts[asked_for(step.instruction), step.worker]
            counts[0] += success
            counts[1] += 1 - success


def best(task: Task, change: str) -> Workflow:
    known = skills(change)
    return with_best_workers(task, lambda operation: max(CARDS, key=lambda worker: known[worker][operation]))


def with_best_workers(task: Task, choose: Any) -> Workflow:
    """The task's reference plan with a worker for each operation."""
    assert task.reference is not None
    return task.reference.replace(
        {step.id: {"worker": choose(asked_for(step.instruction)), "fallback": ()} for step in task.reference.subtasks}
    )


def write_tasks(path: Path, seed: int) -> None:
    if path.exists():
        return
    draw = random.Random(seed)
    lines, seen = [], set()
    for split, count in TASKS.items():
        while sum(line["split"] == split for line in lines) < count:
            line = task_line(draw)
            if line["instruction"] not in seen:
                seen.add(line["instruction"])
                lines.append({**line, "split": split, "task_id": f"words/{len(lines)}"})
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def task_line(draw: random.Random) -> dict[str, Any]:
    word = "".join(draw.choice(side) for _ in range(3) for side in ("bcdfglmnprst", "aeiou"))
    operations = draw.sample(list(OPERATIONS), draw.choice((2, 3)))
    steps, text, answer = [], "", word
    for number, name in enumerate(operations, start=1):
        wordings, do = OPERATIONS[name]
        words = draw.choice(wordings).format(f"the word {word}" if number == 1 else "it")
        lead = "" if number == 1 else ". Finally, " if number == len(operations) else ". Then, "
        words = words[0].upper() + words[1:] if number == 1 else words
        start = len(text) + len(lead)
        text += lead + words
        answer = do(answer)
        steps.append(
            {
                "id": str(number),
                "instruction": words,
                "task_type": "string",
                "depends_on": [str(number - 1)] if number > 1 else [],
                "span": [start, start + len(words)],
            }
        )
    return {"instruction": f"{text}.", "answers": answer, "reference": {"subtasks": steps}}


def report(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Means over seeds with intervals over tasks, in points."""
    rows = {}
    for change in dict.fromkeys(run["change"] for run in runs):
        of_change = [run for run in runs if run["change"] == change]
        of = {name: [np.array(run[name]) for run in of_change] for name in SHOWN if name in of_change[0]}
        row: dict[str, Any] = {name: mean_over_groups(values).to_dict() for name, values in of.items()}
        for name in (name for name in of if name not in ("phase 2", "possible")):
            less = [ours - theirs for ours, theirs in zip(of["phase 2"], of[name], strict=True)]
            row[f"phase 2 less {name}"] = mean_over_groups(less).to_dict()
        row["each seed"] = {name: [float(each.mean()) for each in values] for name, values in of.items()}
        row["calls"] = [run["calls"] for run in of_change]
        row["seconds"] = [round(run["seconds_phase1"] + run["seconds_phase2"]) for run in of_change]
        rows[change] = row
    return rows


SHOWN = ("phase 1", "phase 2", "fresh executions", "bandit", "possible")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--changes", nargs="+", choices=CHANGES, default=CHANGES)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2, 3, 4])
    parser.add_argument("--folder", type=Path, default=Path("runs/drift"))
    parser.add_argument("--fresh", action="store_true", help="beside it, phase 1 from fresh executions")
    parser.add_argument("--finished", action="store_true", help="report what the folder has, and run nothing")
    parser.add_argument("--json", type=Path)
    parser.add_argument("overrides", nargs="*")
    args = parser.parse_intermixed_args()
    runs = []
    for seed in args.seeds:
        for change in args.changes:
            path = args.folder / change / str(seed) / "figures.json"
            if args.finished and not path.exists():
                continue
            run = Run(args.folder, change, seed, args.overrides, args.fresh)
            runs.append(json.loads(path.read_text()) if path.exists() else asyncio.run(run.measure()))
            shown = {name: round(float(np.mean(runs[-1][name])), 3) for name in SHOWN if name in runs[-1]}
            print(change, seed, shown, flush=True)
    found = {"changes": report(runs), "overrides": args.overrides, "versions": artifacts.versions()}
    print(json.dumps(found["changes"], indent=1))
    if args.json:
        before = json.loads(args.json.read_text()) if args.json.exists() else {}
        artifacts.write_json(args.json, {**before, **found})


if __name__ == "__main__":
    main()
