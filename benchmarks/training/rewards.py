"""What the reward does to success, and to validity, over a short phase 2: the present form and the former ones.

    python benchmarks/training/rewards.py pools --run runs/demo [--json FILE]
    python benchmarks/training/rewards.py validity --run runs/language [--json FILE]

`pools` starts from the planner of `orchestai demo`'s first phase and gives its workers made-up prices and latencies,
between 1e-6 and 1 USD and between 1 ms and 10 s: answers and hidden tests stay what they are. Shown is how success
changes on held-out tasks, paired by task, for each form of the reward. `validity` shows the valid share and the tests
passed while a language model learns; the run's folder holds its `config.yaml` and its checkpoint of phase 1.

The former forms charged per dollar and per millisecond (`former defaults`: beta 0.1, gamma_latency 0.01; `former
config.yaml`: beta 10000, gamma_latency 2e-6), and worth of an invalid plan was 0.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import math
import random
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from accelerate import Accelerator
from rich.console import Console
from rich.table import Table

from orchestai.config import Config, load_config
from orchestai.evaluation.statistics import Values, mean, paired_difference
from orchestai.evaluation.systems.runner import Runner
from orchestai.execution.log import read_log
from orchestai.execution.record import ExecutionRecord
from orchestai.execution.reward import AbsoluteReward, Reference, RewardForm, reward_form, typical
from orchestai.execution.running_workflow import JudgingExecutor
from orchestai.execution.runtime import Runtime, open_runtime
from orchestai.planner.checkpoint import load_planner, save_planner
from orchestai.planner.slots.model import PlannerModel
from orchestai.storage import artifacts
from orchestai.tasks import load_suite
from orchestai.tasks.task import Task
from orchestai.training.rl.advantages import plan_credit
from orchestai.training.rl.rollout import ROLE, Rollout
from orchestai.training.rl.run_state import BEST, LAST, RunFolder
from orchestai.training.rl.setup import split_tasks
from orchestai.training.rl.trainer import LearningRules, TaskSets, Trainer
from orchestai.workers.base import Answer, Request
from orchestai.workers.pool import WorkerPool

console = Console(stderr=True)


@dataclass(frozen=True)
class Tariff:
    """Made-up price in US dollars and latency in milliseconds of an answer, by worker."""

    name: str
    usd: Mapping[str, float]
    ms: Mapping[str, float]

    @classmethod
    def drawn(cls, name: str, workers: Iterable[str], usd: tuple[float, float], ms: tuple[float, float]) -> Tariff:
        """Log-uniform between bounds; the name is the seed."""
        rng = random.Random(name)
        names = list(workers)

        def draw(low: float, high: float) -> dict[str, float]:
            return {worker: math.exp(rng.uniform(math.log(low), math.log(high))) for worker in names}

        return cls(name, draw(*usd), draw(*ms))

    @classmethod
    def rising(cls, name: str, workers: Iterable[str]) -> Tariff:
        """From 1e-6 USD and 1 ms for the first worker to 1 USD and 10 s for the last."""
        names = list(workers)
        shares = [i / max(len(names) - 1, 1) for i in range(len(names))]
        usd, ms = ([low * (high / low) ** share for share in shares] for low, high in ((1e-6, 1.0), (1.0, 1e4)))
        return cls(name, dict(zip(names, usd, strict=True)), dict(zip(names, ms, strict=True)))

    def reference(self, records: Iterable[ExecutionRecord]) -> Reference:
        """What the logged executions would typically have cost and taken."""
        runs = []
        for record in records:
            workflow = record.workflow()
            if record.outcome != "scored" or workflow is None:
                continue
            spent = sum(self.usd[a.worker] for subtask in record.subtasks for a in subtask.attempts)
            times = {subtask.id: sum(self.ms[a.worker] for a in subtask.attempts) for subtask in record.subtasks}
            runs.append((spent, workflow.critical_path(times)))
        found = typical(runs, f"median of {len(runs)} logged executions at this tariff")
        assert found is not None
        return found


class Priced:
    """A pool whose workers charge and take what a tariff says."""

    def __init__(self, pool: WorkerPool, tariff: Tariff) -> None:
        self._pool = pool
        self._tariff = tariff

    async def answer(self, name: str, request: Request) -> Answer:
        answer = await self._pool.answer(name, request)
        return answer.model_copy(update={"cost_usd": self._tariff.usd[name], "latency_ms": self._tariff.ms[name]})


@dataclass(frozen=True)
class FormerReward(AbsoluteReward):
    """As before: what is invalid is worth 0, however much what is valid has cost."""

    @property
    def floor(self) -> float:
        return 0.0

    @property
    def margin(self) -> float:
        return -math.inf


def forms(config: Config, reference: Reference) -> dict[str, RewardForm]:
    present = reward_form(config.rewards, config.training.phase2_rl, reference)
    assert present is not None
    alpha, success = config.training.phase2_rl.alpha, config.rewards.success
    return {
        "former defaults": FormerReward(alpha, success, None, beta=0.1, gamma_latency=0.01, shaped_reward=0.1),
        "former config.yaml": FormerReward(alpha, success, None, beta=1e4, gamma_latency=2e-6, shaped_reward=0.1),
        "present": present,
    }


async def learn(config: Config, runtime: Runtime, tariff: Tariff, reward: RewardForm, start: Path, out: Path) -> None:
    """Phase 2 from the checkpoint `start` into the folder `out`."""
    phase2 = config.training.phase2_rl
    planner = load_planner(start, config.planner, config.workers)
    if isinstance(planner, PlannerModel):
        planner.learn_only(frozenset(phase2.explore))
    tasks, eval_tasks = split_tasks(config.tasks)
    executor = JudgingExecutor(Priced(runtime.pool, tariff), runtime.sandbox, config.execution)
    rollout = Rollout(planner, executor.execute, reward, phase2, concurrency=config.execution.concurrency)
    trainer = Trainer(
        Accelerator(cpu=True),
        {ROLE: planner},
        rollout,
        phase2,
        TaskSets(tasks, eval_tasks),
        LearningRules(plan_credit(phase2), config.tasks.unscorable_limit, frozenset(phase2.explore)),
        RunFolder(out, lambda path, facts: save_planner(path, planner, config, **facts), {}),
    )
    try:
        await trainer.train()
    finally:
        await rollout.stop()


async def held_out(config: Config, runtime: Runtime, reward: RewardForm, tasks: list[Task], checkpoint: Path) -> Values:
    """(tasks,) success of a checkpoint's best plans."""
    runner = Runner(runtime.executor, tasks, reward, config.tasks.unscorable_limit)
    row = await runner.row(checkpoint.stem, load_planner(checkpoint, config.planner, config.workers), lambda: None)
    runner.refuse_if_broken()
    return row.values("success")


async def pools(config: Config, run: Path, tasks: int) -> dict[str, Any]:
    workers, records = list(config.workers.cascade), read_log(run / "execution_logs").records
    tariffs = [
        Tariff.drawn("cheap and immediate", workers, (1e-6, 1e-5), (1.0, 10.0)),
        Tariff.drawn("cheap and slow", workers, (1e-6, 1e-4), (1e3, 1e4)),
        Tariff.drawn("expensive and fast", workers, (1e-2, 1.0), (1.0, 1e2)),
        Tariff.drawn("expensive and slow", workers, (1e-2, 1.0), (1e3, 1e4)),
        Tariff.rising("rising with the cascade", workers),
    ]
    test = load_suite(config.tasks.suite, config.tasks.path).split(config.tasks.eval_split)[:tasks]
    start = run / "phase1_best.pth"
    rows = []
    async with open_runtime(config.workers, config.execution, config.sandbox) as runtime:
        first: Values | None = None
        for tariff in tariffs:
            reference = tariff.reference(records)
            for name in ("former defaults", "present"):
                reward = forms(config, reference)[name]
                if first is None:
                    first = await held_out(config, runtime, reward, test, start)
                with TemporaryDirectory() as folder:
                    out = Path(folder)
                    await learn(config, runtime, tariff, reward, start, out)
                    last, best = [await held_out(config, runtime, reward, test, out / file) for file in (LAST, BEST)]
                row = {
                    "pool": tariff.name,
                    "usd": dict(tariff.usd),
                    "ms": dict(tariff.ms),
                    "reference": {"cost_usd": reference.cost_usd, "latency_ms": reference.latency_ms},
                    "reward": name,
                    "phase1_success": mean(first),
                    "last_success": mean(last),
                    "last": paired_difference(last, first).to_dict(),
                    "best": paired_difference(best, first).to_dict(),
                }
                console.print(row, highlight=False)
                rows.append(row)
    return {"rows": rows, "tasks": len(test)}


async def validity(config: Config, run: Path) -> dict[str, Any]:
    workers = list(config.workers.pool)
    tariff = Tariff("a cent and 100 ms", dict.fromkeys(workers, 0.01), dict.fromkeys(workers, 100.0))
    curves = {}
    async with open_runtime(config.workers, config.execution, config.sandbox) as runtime:
        for name, reward in forms(config, Reference(0.02, 200.0, "two answers")).items():
            with TemporaryDirectory() as folder:
                await learn(config, runtime, tariff, reward, run / "phase1_best.pth", Path(folder))
                lines = (Path(folder) / "phase2_metrics.jsonl").read_text().splitlines()
            updates = [row for row in map(json.loads, lines) if "valid_share" in row]
            curves[name] = {
                key: [row[key] for row in updates] for key in ("valid_share", "tests", "success", "cost_usd")
            }
    return {"curves": curves, "tariff": tariff.name}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["pools", "validity"])
    parser.add_argument("--run", type=Path, required=True, help="folder with the first phase's checkpoint")
    parser.add_argument("--config", default="config.yaml")
    parser.add_argument("--tasks", type=int, default=300, help="held-out tasks (pools)")
    parser.add_argument("--json", type=Path)
    parser.add_argument("overrides", nargs="*", help="settings, such as training.phase2_rl.num_episodes=240")
    args = parser.parse_intermixed_args()
    config = load_config(args.config, args.overrides)
    work = pools(config, args.run, args.tasks) if args.what == "pools" else validity(config, args.run)
    found = asyncio.run(work)
    Console(width=120).print(_pools_table(found) if args.what == "pools" else _validity_table(found))
    if args.json is not None:
        facts = {"config": config.model_dump(mode="json"), "versions": artifacts.versions()}
        artifacts.write_json(args.json, {**found, **facts})


def _pools_table(found: Mapping[str, Any]) -> Table:
    table = Table(
        "pool", "reward", "phase 1", "last", "best", title=f"success on {found['tasks']} held-out tasks, points"
    )
    for row in found["rows"]:
        changes = (
            f"{100 * d['mean']:+.1f} [{100 * d['low']:+.1f}, {100 * d['high']:+.1f}]"
            for d in (row["last"], row["best"])
        )
        table.add_row(row["pool"], row["reward"], f"{row['phase1_success']:.1%}", *changes)
    return table


def _validity_table(found: Mapping[str, Any]) -> Table:
    table = Table("reward", "valid plans", "tests passed", title="first update -> last quarter")
    for name, curve in found["curves"].items():
        ends = []
        for key in ("valid_share", "tests"):
            values = curve[key]
            late = values[-max(1, len(values) // 4) :]
            ends.append(f"{values[0]:.1%} -> {sum(late) / len(late):.1%}")
        table.add_row(name, *ends)
    return table


if __name__ == "__main__":
    main()
