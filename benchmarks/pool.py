"""What the pool can do: which worker is right on which operation of the composition suite.

    python benchmarks/pool.py [--json FILE]

Asks every worker for every wording of every operation, as a step of one task in which it occurs, and runs that task's
hidden tests with the answer in place of the canonical step. A worker does an operation well if at least three quarters
of its wordings are answered right, and badly if at most a quarter are.
"""

from __future__ import annotations

import argparse
import asyncio
from pathlib import Path

from rich.console import Console
from rich.progress import track
from rich.table import Table

from orchestai.config import Config, load_config
from orchestai.execution.assembler import assemble
from orchestai.execution.request import build_request
from orchestai.execution.running_workflow import JudgingExecutor
from orchestai.execution.runtime import open_runtime
from orchestai.outcome import judged
from orchestai.rewards.scorers import judge
from orchestai.storage import artifacts
from orchestai.tasks import load_suite
from orchestai.tasks.composition.generate import OPERATIONS
from orchestai.tasks.suites import canonical_steps
from orchestai.tasks.task import Task
from orchestai.tasks.visible_examples import clean
from orchestai.workers.base import WorkerError
from orchestai.workflow import Subtask

WELL, BADLY = 0.75, 0.25

console = Console(stderr=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--config", default="config.yaml")
    parser.add_argument("--json", type=Path, help="also write every share to this file")
    args = parser.parse_args()
    config = load_config(args.config)
    shares = asyncio.run(measure(config))
    split = [name for name, by in shares.items() if max(by.values()) >= WELL and min(by.values()) <= BADLY]
    hopeless = [name for name, by in shares.items() if max(by.values()) == 0]
    table = Table("worker", "well", "between", "badly", title=f"{len(shares)} operations")
    for worker in config.workers.pool:
        found = [by[worker] for by in shares.values()]
        well, badly = sum(share >= WELL for share in found), sum(share <= BADLY for share in found)
        table.add_row(worker, str(well), str(len(found) - well - badly), str(badly))
    Console().print(table)
    print(f"done well by some and badly by others: {len(split)} of {len(shares)}; by nobody: {len(hopeless)}")
    if args.json is not None:
        facts = {"config": config.model_dump(mode="json"), "versions": artifacts.versions()}
        artifacts.write_json(args.json, {"split": split, "hopeless": hopeless, "right": shares, **facts})


async def measure(config: Config) -> dict[str, dict[str, float]]:
    """Operation -> worker -> share of the operation's wordings that the worker answers right."""
    places = occurrences()
    shares: dict[str, dict[str, float]] = {}
    async with open_runtime(config.workers, config.execution, config.sandbox) as runtime:
        for operation in track(OPERATIONS, "pool", console=console):
            wordings = [places[clean(phrasing.span)] for phrasing in operation.phrasings]
            shares[operation.name] = {}
            for worker in config.workers.pool:
                right = await asyncio.gather(*(answers_right(runtime.executor, worker, *place) for place in wordings))
                shares[operation.name][worker] = sum(right) / len(right)
    return shares


def occurrences() -> dict[str, tuple[Task, Subtask]]:
    """Wording -> the first task and subtask that has it."""
    suite = load_suite("composition")
    found: dict[str, tuple[Task, Subtask]] = {}
    for task in (task for split in suite.splits for task in suite.split(split)):
        assert task.reference is not None
        for subtask in task.reference.subtasks:
            found.setdefault(clean(subtask.instruction), (task, subtask))
    return found


async def answers_right(executor: JudgingExecutor, worker: str, task: Task, subtask: Subtask) -> bool:
    assert task.reference is not None
    canonical = canonical_steps(task.reference)
    assert canonical is not None
    try:
        answer = await executor.pool.answer(worker, build_request(task, task.reference, subtask, kind="dataflow"))
    except WorkerError:
        return False
    program = assemble(task, task.reference, {**canonical, subtask.id: answer.text}, "dataflow")
    return judged((await judge(task, program, executor.sandbox)).outcome) >= 1.0


if __name__ == "__main__":
    main()
