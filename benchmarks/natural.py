"""What planners make of instructions in natural wording, and of compositions longer than any they learned from.

    python -m benchmarks.natural FILE --checkpoint CHECKPOINT... [--beside JSON...] [--json FILE] [--plot FILE]

FILE has one task a line, with BigCodeBench's fields, and `steps` (id, span in the instruction, perhaps acceptable other
spans) and `edges` between them; the functions of its `canonical_solution` are the steps'. One checkpoint per seed:
figures are means over tasks of the means over checkpoints, with 95 % bootstrap intervals over tasks. Checkpoints that
were measured before, one at a time, are added from the JSON files of then.

`steps_right`: as many steps as the reference. `plan_right`: also each with at least half of the words of one of its
steps (intersection over union), and its edges. `success`: the plan is executed by a worker that answers a step with the
task's own function where the words match, and fails otherwise. `longer`: the composition suite's tasks of six steps,
whose plans are executed by the configured workers. `ten_steps`: compositions of ten, planned only. `composition`: the
suite's test tasks, planned only. The confidence of plans is compared with what is right on FILE and the suite's test
tasks together, each of the two counting one half, and once more with each plan counting once; the plot shows the share
of wrong plans among the surest ones.
"""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import io
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table

from benchmarks.natural_tasks import NaturalTask, StepFunctions, assigned_to_itself, read_tasks
from orchestai.config import Config, load_config
from orchestai.errors import UserError
from orchestai.evaluation.statistics import bootstrap_mean
from orchestai.execution.running_workflow import JudgingExecutor
from orchestai.execution.runtime import Runtime, open_runtime
from orchestai.planner.base import Plan
from orchestai.planner.checkpoint import load_planner
from orchestai.planner.plan_metrics import is_exact, is_right, match_spans
from orchestai.storage import artifacts
from orchestai.tasks import load_suite
from orchestai.tasks.composition.generate import BUCKETS, Split, generate
from orchestai.tasks.task import Task
from orchestai.workflow import Workflow

_BINS = 5
"""Of equal weight, between which confidence is compared with what is right."""
_TEN_STEPS = 40
_SEVERAL = 3
"""Values that were there before one of them is named."""
_BY_NUMBER = re.compile(r"\bsteps? \d")
Scores = dict[str, list[float]]


async def natural(tasks: Sequence[NaturalTask], plans: Sequence[Plan], runtime: Runtime, config: Config) -> Scores:
    """One value per task of each figure."""
    scores: Scores = {key: [] for key in ("steps_right", "plan_right", "overlapping", "success")}
    for one, plan in zip(tasks, plans, strict=True):
        planned = plan.workflow
        places = [s.span for s in planned.subtasks if s.span is not None] if planned is not None else []
        scores["steps_right"].append(float(len(places) == len(one.spans)))
        scores["plan_right"].append(float(planned is not None and is_right(planned, one.reference(planned))))
        scores["overlapping"].append(
            float(any(a < d and c < b for i, (a, b) in enumerate(places) for c, d in places[:i]))
        )
        scores["success"].append(await _success(one, planned, runtime, config) if planned is not None else 0.0)
    return scores


async def _success(one: NaturalTask, planned: Workflow, runtime: Runtime, config: Config) -> float:
    planned = assigned_to_itself(planned)
    execution = config.execution.model_copy(update={"assembler": "dataflow"})
    judged = await JudgingExecutor(StepFunctions(one, planned), runtime.sandbox, execution).execute(one.task, planned)
    return float(judged.success or 0)


def exact(plans: Sequence[Plan], tasks: Sequence[Task]) -> list[float]:
    """For each composition whether its plan has the steps and edges that it was made of."""
    found = []
    for task, plan in zip(tasks, plans, strict=True):
        planned, wanted = plan.workflow, task.reference
        assert wanted is not None
        found.append(float(planned is not None and is_exact(planned, wanted, match_spans(planned, wanted))))
    return found


def named_wrong(plans: Sequence[Plan], tasks: Sequence[Task]) -> list[float]:
    """For each value that a composition names, where several came before, whether its plan takes another."""
    found = []
    for task, plan in zip(tasks, plans, strict=True):
        planned, wanted = plan.workflow, task.reference
        assert wanted is not None
        match = {} if planned is None else {step: place for place, step in match_spans(planned, wanted).items()}
        parents_of = [] if planned is None else planned.dependencies()
        places = [subtask.span or (0, 0) for subtask in wanted.subtasks]
        for step, parents in list(enumerate(wanted.dependencies()))[_SEVERAL:]:
            before = task.instruction[places[step - 1][1] : places[step][0]]
            if parents and parents != [step - 1] and not _BY_NUMBER.search(before):
                taken = parents_of[match[step]] if step in match else []
                found += [float(match.get(parent) not in taken) for parent in parents]
    return found


async def success(plans: Sequence[Plan], tasks: Sequence[Task], runtime: Runtime) -> list[float]:
    """For each task whether its plan solves it with the configured workers."""
    executions = [runtime.executor.execute(t, p.workflow) for t, p in zip(tasks, plans, strict=True) if p.workflow]
    done = iter(await asyncio.gather(*executions))
    return [float(next(done).success or 0) if plan.workflow else 0.0 for plan in plans]


@dataclass(frozen=True)
class Judged:
    """A plan's confidence, whether the plan is right, and the weight with which it counts."""

    confidence: float
    right: float
    weight: float


def judged(plans: Sequence[Plan], right: Sequence[float]) -> list[Judged]:
    """Plans with a confidence; together they weigh 1."""
    known = [(p.confidence, r) for p, r in zip(plans, right, strict=True) if p.confidence is not None]
    return [Judged(confidence, r, 1 / len(known)) for confidence, r in known]


def calibration_error(plans: Sequence[Judged]) -> float:
    """Expected calibration error over bins of equal weight (Naeini et al. 2015)."""
    plans = sorted(plans, key=lambda plan: plan.confidence)
    weight = np.array([plan.weight for plan in plans])
    gap = weight * np.array([plan.confidence - plan.right for plan in plans])
    bins = np.minimum((np.cumsum(weight) - weight / 2) / weight.sum() * _BINS, _BINS - 1).astype(int)
    return float(sum(abs(gap[bins == i].sum()) for i in range(_BINS)) / weight.sum())


def risk_by_coverage(plans: Sequence[Judged]) -> list[tuple[float, float]]:
    """For each share of the plans, surest first, the share of wrong ones among them (El-Yaniv and Wiener 2010)."""
    plans = sorted(plans, key=lambda plan: -plan.confidence)
    weight = np.array([plan.weight for plan in plans])
    wrong = np.cumsum(weight * np.array([1 - plan.right for plan in plans])) / np.cumsum(weight)
    return list(zip((np.cumsum(weight) / weight.sum()).tolist(), wrong.tolist(), strict=True))


@dataclass(frozen=True)
class Measured:
    """What one checkpoint made of everything.

    Attributes:
        scores: by source and figure, one value per task.
        confident: by source, its plans with their confidence.
    """

    scores: Mapping[str, Scores]
    confident: Mapping[str, Sequence[Judged]]

    def to_dict(self) -> dict[str, Any]:
        plans = {name: [[p.confidence, p.right, p.weight] for p in some] for name, some in self.confident.items()}
        return {"scores": dict(self.scores), "confident": plans}

    @classmethod
    def of(cls, known: Mapping[str, Any]) -> Measured:
        confident = {name: [Judged(*plan) for plan in some] for name, some in known["confident"].items()}
        return cls(known["scores"], confident)


async def measure(tasks: Sequence[NaturalTask], config: Config, checkpoint: Path, limit: int | None) -> Measured:
    suite = load_suite("composition")
    six, test = suite.split("longer")[:limit], suite.split("test")[:limit]
    ten = generate(Split("ten_steps", min(len(six), _TEN_STEPS), {10: 1}, range(BUCKETS)))
    async with open_runtime(config.workers, config.execution, config.sandbox) as runtime:
        planner = load_planner(checkpoint, config.planner, config.workers)
        plans = planner.plan([one.task for one in tasks])
        scores = {"natural": await natural(tasks, plans, runtime, config)}
        confident = {"natural": judged(plans, scores["natural"]["plan_right"])}
        if six:
            plans = planner.plan(six)
            solved = await success(plans, six, runtime)
            scores["longer"] = {"exact": exact(plans, six), "success": solved, "named_wrong": named_wrong(plans, six)}
            scores["ten_steps"] = {"exact": exact(planner.plan(ten), ten)}
            plans = planner.plan(test)
            scores["composition"] = {"exact": exact(plans, test)}
            confident["composition"] = judged(plans, scores["composition"]["exact"])
    return Measured(scores, confident)


def summary(measured: Sequence[Measured]) -> dict[str, Any]:
    """The figures of all checkpoints.

    Raises:
        UserError: they were asked different things.
    """
    first = measured[0].scores
    if (
        len({tuple((name, key, len(v)) for name in m.scores for key, v in m.scores[name].items()) for m in measured})
        > 1
    ):
        raise UserError("--beside: checkpoints were measured with another --longer, or on another composition suite")
    figures: dict[str, Any] = {
        name: {key: _interval([one.scores[name][key] for one in measured]) for key in first[name]} for name in first
    }
    confident = {name: [plan for one in measured for plan in one.confident[name]] for name in measured[0].confident}
    if everything := [plan for some in confident.values() for plan in some]:
        figures["confidence"] = {
            "calibration_error": calibration_error(everything),
            "each_plan_once_calibration_error": calibration_error([replace(plan, weight=1.0) for plan in everything]),
            **{f"{name}_calibration_error": calibration_error(some) for name, some in confident.items() if some},
            "risk_by_coverage": risk_by_coverage(everything),
        }
    counts = {
        "tasks": len(first["natural"]["steps_right"]),
        "compositions": len(first.get("longer", {}).get("exact", [])),
    }
    return figures | counts | {"checkpoints": len(measured)}


def read_measured(paths: Sequence[Path], file: str, tasks: int) -> list[Measured]:
    """What earlier runs measured of other checkpoints on the same file.

    Args:
        file: sha256 of the file of tasks.

    Raises:
        UserError: one cannot be read, or was of another file.
    """
    found = []
    for path in paths:
        try:
            known = json.loads(path.read_text(encoding="utf-8"))
            same = known["file"] == file
            found += [Measured.of(one) for one in known["measured"]]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise UserError(f"--beside {path}: is no JSON file of this benchmark ({error!r})") from None
        if not same:
            raise UserError(f"--beside {path}: measured other tasks than these {tasks}; name the file that it was of")
    return found


def draw(figures: dict[str, Any], path: Path) -> None:
    """Risk against coverage, as PNG."""
    figure = Figure(figsize=(5, 3.2), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.add_subplot()
    coverage, risk = zip(*figures["confidence"]["risk_by_coverage"], strict=True)
    axes.plot([100 * c for c in coverage], [100 * r for r in risk], color="#c1272d")
    axes.set(
        xlabel="plans followed, surest first (%)", ylabel="wrong plans among them (%)", xlim=(0, 100), ylim=(0, None)
    )
    picture = io.BytesIO()
    figure.savefig(picture, format="png", dpi=150)
    artifacts.write_bytes(path, picture.getvalue())


def _interval(seeds: Sequence[Sequence[float]]) -> dict[str, Any]:
    interval = bootstrap_mean(np.mean(np.array(seeds), axis=0))
    each = [float(np.mean(one)) for one in seeds]
    return {"mean": interval.mean, "low": interval.low, "high": interval.high, "each": each}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--checkpoint", type=Path, nargs="+", required=True, help="one per seed")
    parser.add_argument("--config", default="config.yaml")
    parser.add_argument(
        "--longer", type=int, help="at most so many compositions of a length (all of them); 0 leaves them out"
    )
    parser.add_argument(
        "--beside", type=Path, nargs="+", default=[], help="JSON files of checkpoints that were measured before"
    )
    parser.add_argument("--json", type=Path)
    parser.add_argument("--plot", type=Path, help="draw risk against coverage there")
    args, overrides = parser.parse_known_args()
    overrides += [str(given) for given in args.checkpoint if "=" in str(given)]
    checkpoints = [path for path in args.checkpoint if "=" not in str(path)]
    try:
        config = load_config(args.config, overrides)
        tasks = read_tasks(args.file)
        file = hashlib.sha256(args.file.read_bytes()).hexdigest()
        measured = read_measured(args.beside, file, len(tasks))
        for path in checkpoints:
            measured.append(asyncio.run(measure(tasks, config, path, args.longer)))
        figures = summary(measured)
    except UserError as error:
        parser.error(str(error))
    table = Table("figure", "mean %", "95 %", "each checkpoint")
    for name in ("natural", "longer", "ten_steps", "composition"):
        for key, value in figures.get(name, {}).items():
            bounds = f"{100 * value['low']:.1f} to {100 * value['high']:.1f}"
            each = ", ".join(f"{100 * one:.1f}" for one in value["each"])
            table.add_row(f"{name}.{key}", f"{100 * value['mean']:.1f}", bounds, each)
    Console(width=100).print(table)
    if "confidence" in figures:
        errors = {key: value for key, value in figures["confidence"].items() if key.endswith("error")}
        print("; ".join(f"{key.replace('_', ' ')}: {value:.3f}" for key, value in errors.items()))
        if args.plot:
            draw(figures, args.plot)
    if args.json:
        facts = {"checkpoint": [str(path) for path in checkpoints], "file": file, "versions": artifacts.versions()}
        artifacts.write_json(args.json, figures | facts | {"measured": [one.to_dict() for one in measured]})


if __name__ == "__main__":
    main()
