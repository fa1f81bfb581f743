"""Whether a worker does a step better that reads the whole task around it than one that reads the step's words alone.

    python -m benchmarks.step_context FILE [--worker NAME] [--compositions N] [--json FILE]

Steps and edges are the right ones, of FILE's tasks (the format is that of `benchmarks/natural.py`) and of the
composition suite's validation split. Each step in turn is done by the worker, all others by the task's own functions;
it is right where the task's hidden tests pass. Means over steps with 95 % bootstrap intervals over tasks, and the
paired difference.
"""

from __future__ import annotations

import argparse
import asyncio
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

from benchmarks.natural_tasks import NaturalTask, StepFunctions, assigned_to_itself
from orchestai.config import Config, WorkerConfig, load_config
from orchestai.errors import UserError
from orchestai.evaluation.statistics import bootstrap_mean
from orchestai.execution.running_workflow import JudgingExecutor, Workers
from orchestai.execution.runtime import Runtime, open_runtime
from orchestai.outcome import Scored
from orchestai.storage import artifacts
from orchestai.tasks import load_suite
from orchestai.tasks.composition import steps
from orchestai.tasks.task import Task
from orchestai.tasks.visible_examples import clean
from orchestai.workers.base import Answer, Request, WorstCase
from orchestai.workers.pool import WorkerPool
from orchestai.workflow import Subtask, Workflow

READS = ("step", "task")


class Programs:
    """Workers that know the source of each step of a composition."""

    def __init__(self, sources: Mapping[str, str]) -> None:
        self._sources = sources

    def worst_case(self, name: str, request: Request) -> WorstCase:
        return WorstCase()

    async def answer(self, name: str, request: Request) -> Answer:
        return Answer(text=self._sources[name])


class OneStep:
    """Has one step done by a worker of the pool, and the others by those who know them."""

    def __init__(self, others: Workers, step: str, pool: WorkerPool, worker: str) -> None:
        self._others, self._step, self._pool, self._worker = others, step, pool, worker

    def worst_case(self, name: str, request: Request) -> WorstCase:
        return WorstCase()

    async def answer(self, name: str, request: Request) -> Answer:
        if name == self._step:
            return await self._pool.answer(self._worker, request)
        return await self._others.answer(name, request)


def natural(record: Mapping[str, Any]) -> tuple[Task, Workflow, Workers]:
    """A task of the file, its plan and who knows its steps."""
    one = NaturalTask.of(record)
    text = one.task.instruction
    plan = Workflow(
        [
            Subtask(
                id=str(i),
                instruction=clean(text[slice(*spans[0])]),
                span=spans[0],
                depends_on=tuple(str(a) for a, b in sorted(one.edges) if b == i),
            )
            for i, spans in enumerate(one.spans)
        ]
    )
    return one.task, assigned_to_itself(plan), StepFunctions(one, assigned_to_itself(plan))


def composed(task: Task) -> tuple[Task, Workflow, Workers]:
    """The same of a composition."""
    assert task.reference is not None
    sources = steps.canonical(task.reference)
    assert sources is not None
    return task, assigned_to_itself(task.reference), Programs(sources)


async def right(
    problems: Sequence[tuple[Task, Workflow, Workers]], worker: str, runtime: Runtime, config: Config
) -> list[list[float]]:
    """For each problem whether the worker did each step right; steps that nobody could judge are left out."""
    execution = config.execution.model_copy(update={"assembler": "dataflow"})

    async def one(task: Task, plan: Workflow, others: Workers, step: str) -> float | None:
        workers = OneStep(others, step, runtime.pool, worker)
        judged = await JudgingExecutor(workers, runtime.sandbox, execution).execute(task, plan)
        return float(judged.success) if isinstance(judged.outcome, Scored) else None

    found = await asyncio.gather(
        *(asyncio.gather(*(one(task, plan, others, s.id) for s in plan.subtasks)) for task, plan, others in problems)
    )
    return [[value for value in each if value is not None] for each in found]


async def measure(config: Config, file: Path, name: str, compositions: int) -> dict[str, Any]:
    workers = config.workers
    if name not in workers.pool:
        raise UserError(f"--worker: no worker {name!r} in workers.pool; there are {', '.join(workers.pool)}")
    pool: dict[str, WorkerConfig] = {reads: workers.pool[name].model_copy(update={"reads": reads}) for reads in READS}
    workers = workers.model_copy(update={"pool": pool, "cascade": list(READS)})
    records = [json.loads(line) for line in file.read_text().splitlines() if line.strip()]
    suites = {
        "natural": [natural(record) for record in records],
        "composition": [composed(task) for task in load_suite("composition").split("validation")[:compositions]],
    }
    figures: dict[str, Any] = {}
    async with open_runtime(workers, config.execution, config.sandbox) as runtime:
        for suite, problems in suites.items():
            found = {reads: await right(problems, reads, runtime, config) for reads in READS}
            figures[suite] = {reads: _interval([float(np.mean(one)) for one in found[reads]]) for reads in READS}
            gaps = [float(np.mean(b) - np.mean(a)) for a, b in zip(found["step"], found["task"], strict=True)]
            figures[suite]["difference"] = _interval(gaps)
    return figures | {"worker": name, "tasks": {suite: len(problems) for suite, problems in suites.items()}}


def _interval(values: Sequence[float]) -> dict[str, float]:
    interval = bootstrap_mean(np.array(values))
    return {"mean": interval.mean, "low": interval.low, "high": interval.high}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--worker", default="smol-greedy", help="of workers.pool")
    parser.add_argument("--compositions", type=int, default=60)
    parser.add_argument("--config", default="config.yaml")
    parser.add_argument("--json", type=Path)
    args, overrides = parser.parse_known_args()
    try:
        config = load_config(args.config, overrides)
        figures = asyncio.run(measure(config, args.file, args.worker, args.compositions))
    except UserError as error:
        parser.error(str(error))
    table = Table("suite", "reads", "steps right %", "95 %")
    for suite in ("natural", "composition"):
        for key, value in figures[suite].items():
            bounds = f"{100 * value['low']:.1f} to {100 * value['high']:.1f}"
            table.add_row(suite, key, f"{100 * value['mean']:.1f}", bounds)
    Console(width=100).print(table)
    if args.json:
        artifacts.write_json(args.json, figures | {"versions": artifacts.versions()})


if __name__ == "__main__":
    main()
