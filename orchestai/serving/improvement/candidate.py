"""A candidate: the incumbent, trained on by imitation of what served well, and by the reward of recorded attempts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from orchestai.config import Config
from orchestai.data.prepare import prepare
from orchestai.execution.record import ExecutionRecord
from orchestai.serving.improvement.judged_runs import JudgedRuns
from orchestai.storage import artifacts
from orchestai.tasks.task import Task
from orchestai.training.rl.setup import train as train_phase2
from orchestai.training.supervised.train import train as train_phase1

FEWEST_TASKS = 24
"""To learn from by reward; of fewer, an update would be noise."""


async def train_candidate(
    config: Config,
    judged: JudgedRuns,
    others: Sequence[ExecutionRecord],
    incumbent: Path,
    folder: Path,
    *,
    seed_data: Path | None = None,
    phase2: bool = True,
) -> tuple[Path, dict[str, Any]]:
    """Train a candidate; what it was trained on, and how, is kept in `folder`.

    Phase 1 goes on from the incumbent with the plans of served runs that succeeded. Phase 2 follows where there are
    enough tasks whose answers can be judged.

    Args:
        others: executions that were collected, not served.
        seed_data: the training file of the first planner, which is repeated so that nothing of it is forgotten.

    Returns:
        The checkpoint, and counts of what it was trained on.

    Raises:
        UserError: there is nothing to learn from, or training cannot begin or go on.
    """
    log, data = folder / "judged.jsonl", folder / "training_data.json"
    lines = "".join(record.model_dump_json() + "\n" for record in [*judged.records, *others])
    artifacts.write_text(log, lines)
    report = prepare(log, _for_phase1(config, seed_data), data)
    train_phase1(_for_phase1(config, seed_data), data=data, output_dir=folder / "phase1", start=incumbent)
    checkpoint = folder / "phase1" / "phase1_best.pth"
    learned: dict[str, Any] = {
        "runs": len(judged.records),
        "succeeded": sum(record.success for record in judged.records),
        "left_out": dict(judged.left_out),
        "examples": {"train": report.train, "validation": report.validation, "seed": report.mixture},
        "phase2_tasks": 0,
    }
    tasks, held_out = judged.part("train"), judged.part("validation")
    if phase2 and len(tasks) >= FEWEST_TASKS and held_out:
        path = folder / "tasks.jsonl"
        artifacts.write_text(path, "".join(_line(task) for task in [*tasks, *held_out]))
        served = config.tasks.model_copy(update={"suite": "file", "path": str(path.resolve()), "split": "train"})
        summary = await train_phase2(
            config.model_copy(update={"tasks": served}), checkpoint=checkpoint, output_dir=folder / "phase2"
        )
        summary.exit_if_stopped()
        checkpoint = folder / "phase2" / "phase2_best.pth"
        learned["phase2_tasks"] = len(tasks)
    return checkpoint, learned


def _for_phase1(config: Config, seed_data: Path | None) -> Config:
    """Only runs that succeeded are imitated: nobody knows whether a plan that failed was split well."""
    settings = config.training.phase1_supervised
    mixture = () if seed_data is None else (str(seed_data),)
    changed = settings.model_copy(update={"keep": "success", "mixture": mixture, "mixture_augmentations": 0})
    return config.model_copy(update={"training": config.training.model_copy(update={"phase1_supervised": changed})})


def _line(task: Task) -> str:
    import json

    row: dict[str, Any] = {"task_id": task.task_id, "instruction": task.instruction, "split": task.split}
    row |= {"tests": task.test} if task.test else {"answers": list(task.answers)}
    if task.scorer:
        row["scorer"] = task.scorer
    return json.dumps(row, ensure_ascii=False) + "\n"
