"""Whether a plan beats one call: the map over workers whose chance to err is set, and what is left whole.

    python -m benchmarks.plan_or_call --data DATA [--json docs/results/plan_or_call.json]

The protocol stands in docs/evaluation.md. DATA holds `natural/natural.jsonl`, `gsm8k/test.jsonl.gz`,
`hotpotqa_dev/hotpot_dev_v1_simplified.json.gz` and `humaneval/HumanEval.jsonl.gz`.
"""

from __future__ import annotations

import argparse
import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from random import Random
from typing import Any, TypeAlias

import numpy as np

from benchmarks.natural_tasks import NaturalTask, StepFunctions, read_tasks
from orchestai.config import load_config
from orchestai.evaluation.statistics import Values, bootstrap_mean, paired_difference
from orchestai.execution.result import JudgedExecution
from orchestai.execution.running_workflow import JudgingExecutor
from orchestai.execution.runtime import open_runtime
from orchestai.planner.serving import open_planner
from orchestai.sandbox import Sandbox
from orchestai.storage import artifacts
from orchestai.tasks import load_suite
from orchestai.tasks.composition.steps import canonical
from orchestai.tasks.task import Task
from orchestai.workers.base import Answer, Request, WorkerError, WorstCase
from orchestai.workflow import Subtask, Workflow

Programs: TypeAlias = Callable[[Request], Awaitable[tuple[str, int] | None]]
ERRORS, CONFUSED, UNSEEN = (0.05, 0.2, 0.4), (1.0, 1.5), (0.0, 1.0)
"""Chance to err on a step; exponent of the number of steps asked for at once; share of errors that examples pass."""
CASCADE = ("weak-1", "weak-2", "strong-1")
SAMPLES = tuple(f"weak-{number}" for number in range(1, 9))
_TASKS, _LONGER, _QUESTIONS = 40, 15, 20
_TOLD, _WRITTEN = 150, 60
_KINDS = {"weak": (0.2e-6, 5.0, 1.0), "strong": (2e-6, 10.0, 0.25)}
"""US dollars per token, milliseconds per token that is written, and share of the weak one's errors."""


@dataclass
class ErringWorkers:
    """Workers that write the right program for what they are asked, unless they err.

    Attributes:
        programs: gives the source that is right for a request and how many steps it is, or None.
        task: id of the task that it is part of.
    """

    programs: Programs
    task: str
    error: float
    confused: float
    unseen: float

    def worst_case(self, name: str, request: Request) -> WorstCase:
        return WorstCase()

    async def answer(self, name: str, request: Request) -> Answer:
        found = await self.programs(request)
        if found is None or request.signature is None:
            raise WorkerError(f"{request.instruction!r} is no step of this task")
        source, steps = found
        usd, pace, share = _KINDS[name.partition("-")[0]]
        luck = Random(f"{self.task}/{name}/{request.instruction}")
        if luck.random() >= (1 - share * self.error) ** (steps**self.confused):
            shown = request.examples if luck.random() < self.unseen else ()
            source = _wrong(request.signature.name, request.signature.parameters, shown)
        read = _TOLD + len(request.instruction) // 4
        written = _WRITTEN * steps
        return Answer(
            text=source,
            prompt_tokens=read,
            completion_tokens=written,
            cost_usd=(read + 4 * written) * usd,
            latency_ms=200 + pace * written,
        )


def _wrong(name: str, parameters: Sequence[str], shown: Sequence[Any]) -> str:
    lines = [
        f"    if [{', '.join(parameters)}] == [{', '.join(one.args)}]:\n        return {one.result}" for one in shown
    ]
    return "\n".join([f"def {name}({', '.join(parameters)}):", *lines, "    return None", ""])


def composed(task: Task) -> Programs:
    """The programs of a composition: of all of it, and of each step by its words."""

    async def programs(request: Request) -> tuple[str, int] | None:
        assert task.reference is not None
        assert request.signature is not None
        if request.instruction == task.instruction:
            return task.canonical_program, len(task.reference)
        sources = canonical(Workflow([Subtask(id="1", instruction=request.instruction)]))
        if sources is None:
            return None
        parameters = ", ".join(request.signature.parameters)
        own = re.sub(r"\bstep\b", "own_step", sources["1"])
        return f"{own}\n\ndef {request.signature.name}({parameters}):\n    return own_step({parameters})\n", 1

    return programs


def natural_programs(one: NaturalTask, plan: Workflow) -> Programs:
    """The programs of a natural task: of all of it, and of each planned step that is one of its own."""
    steps = StepFunctions(one, plan)
    ids = {subtask.instruction: subtask.id for subtask in plan.subtasks}

    async def programs(request: Request) -> tuple[str, int] | None:
        if len(plan) == 1:
            return one.task.canonical_program, len(one.spans)
        try:
            return (await steps.answer(ids[request.instruction], request)).text, 1
        except WorkerError:
            return None

    return programs


def whole(task: Task, workers: Sequence[str]) -> Workflow:
    return Workflow([Subtask(id="1", instruction=task.instruction, worker=workers[0], fallback=tuple(workers[1:]))])


def by_cascade(plan: Workflow | None, task: Task) -> Workflow:
    """The plan, each of its steps by the cascade; without one, the whole task."""
    if plan is None or len(plan) == 1:
        return whole(task, CASCADE)
    return plan.replace({one.id: {"worker": CASCADE[0], "fallback": CASCADE[1:]} for one in plan.subtasks})


def cut(done: JudgedExecution, tries: int) -> tuple[float, float, float]:
    """Success, US dollars and seconds of one step that is tried so often; what a check refuses is wrong."""
    attempts = done.results[0].attempts
    taken = attempts[:tries]
    solved = float(done.success or 0) if len(attempts) <= tries or done.results[0].kept < tries else 0.0
    return solved, sum(one.cost_usd for one in taken), sum(one.latency_ms for one in taken) / 1000


async def measure(
    tasks: Sequence[Task],
    ways: dict[str, list[Workflow]],
    programs: Callable[[Task, Workflow], Programs],
    sandbox: Sandbox,
    setting: tuple[float, float, float],
) -> dict[str, Values]:
    """Way -> (3, tasks) success, US dollars and seconds of the critical path."""
    execution, found, samples = load_config().execution, dict[str, Values](), list[JudgedExecution]()

    async def one(task: Task, plan: Workflow) -> JudgedExecution:
        return await JudgingExecutor(
            ErringWorkers(programs(task, plan), task.task_id, *setting), sandbox, execution
        ).execute(task, plan)

    for way, plans in ways.items():
        done = await asyncio.gather(*(one(task, plan) for task, plan in zip(tasks, plans, strict=True)))
        if way == "self-consistency":
            samples = list(done)
        figures = [(float(its.success or 0), its.total_cost, its.total_latency_ms / 1000) for its in done]
        found[way] = np.array(figures).T
    budget = found["our plan"][1].mean()
    for tries in range(1, len(SAMPLES) + 1) if samples else ():
        own = np.array([cut(done, tries) for done in samples]).T
        if tries == 1 or own[1].mean() <= budget:
            found["self-consistency"] = own
    return found


def report_of(found: dict[str, Values]) -> dict[str, Any]:
    """Figures of each way, and our plan less it."""
    ours, report = found["our plan"], dict[str, Any]()
    for way, own in found.items():
        report[way] = {
            "success": bootstrap_mean(own[0]).to_dict(),
            "usd_per_1000": 1000 * float(own[1].mean()),
            "critical_path_s": float(own[2].mean()),
            "our plan - way": paired_difference(ours[0], own[0]).to_dict(),
        }
    return report


def settings() -> list[tuple[float, float, float]]:
    return list(product(ERRORS, CONFUSED, UNSEEN))


async def run(data: Path) -> dict[str, Any]:
    """All figures."""
    config, report = load_config(), dict[str, Any]()
    suite = load_suite("composition")
    tasks = [*suite.split("test")[:_TASKS], *suite.split("longer")[:_LONGER]]
    natural = read_tasks(data / "natural/natural.jsonl")
    own, by_text = [one.task for one in natural], {one.task.instruction: one for one in natural}

    def of_natural(task: Task, plan: Workflow) -> Programs:
        return natural_programs(by_text[task.instruction], plan)

    async with open_runtime(config.workers, config.execution, config.sandbox) as runtime:
        served = await open_planner(None, config.planner, config.workers, runtime.pool)
        plans = [plan.workflow for plan in served.plan([*tasks, *own])]
        steps = np.array([len(task.reference or ()) for task in tasks])
        for setting in settings():
            name = "error {}, confused {}, unseen {}".format(*setting)
            ways = {
                "strong, whole": [whole(task, ["strong-1"]) for task in tasks],
                "self-consistency": [whole(task, SAMPLES) for task in tasks],
                "cascade": [whole(task, CASCADE) for task in tasks],
                "our plan": [by_cascade(plan, task) for plan, task in zip(plans, tasks, strict=False)],
                "reference plan": [by_cascade(task.reference, task) for task in tasks],
            }
            found = await measure(tasks, ways, lambda task, _: composed(task), runtime.sandbox, setting)
            report[name] = {"compositions": report_of(found)}
            for count in np.unique(steps):
                part = {way: values[:, steps == count] for way, values in found.items()}
                report[name][f"{count} steps"] = report_of(part)
            if setting[2]:  # natural tasks show no examples
                own_plans = [by_cascade(plan, task) for plan, task in zip(plans[len(tasks) :], own, strict=True)]
                ways = {
                    "strong, whole": [whole(task, ["strong-1"]) for task in own],
                    "cascade": [whole(task, CASCADE) for task in own],
                    "our plan": own_plans,
                }
                found = await measure(own, ways, of_natural, runtime.sandbox, setting)
                report[name]["natural"] = report_of(found)
            for part, figures in report[name].items():
                print(name, part, {way: its["success"]["mean"] for way, its in figures.items()}, flush=True)
        report["left whole"] = {}
        people = {"gsm8k": "gsm8k/test.jsonl.gz", "hotpotqa": "hotpotqa_dev/hotpot_dev_v1_simplified.json.gz"}
        for name, file in {**people, "humaneval": "humaneval/HumanEval.jsonl.gz"}.items():
            read = load_suite(name, str(data / file))
            asked = [task for split in read.splits for task in read.split(split)][:_QUESTIONS]
            plans = served.plan(asked)
            alone = np.array([float(plan.workflow is None or len(plan.workflow) == 1) for plan in plans])
            report["left whole"][name] = bootstrap_mean(alone).to_dict()
            print(name, report["left whole"][name], flush=True)
    return report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--json", type=Path, default=Path("docs/results/plan_or_call.json"))
    args = parser.parse_args()
    artifacts.write_json(args.json, asyncio.run(run(args.data)))


if __name__ == "__main__":
    main()
