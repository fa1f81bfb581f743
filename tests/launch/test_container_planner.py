"""A planner goes through both phases in SageMaker's container, as its entry runs them below a test's `/opt/ml`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from orchestai.config import Config
from orchestai.data.training_file import Rewards, TrainingExample, save_training_data
from orchestai.launch.sagemaker import ENTRY
from orchestai.tasks.task import Task
from orchestai.workflow import Subtask, Workflow
from support.repository import REPOSITORY
from support.training.phase2 import configuration

PLANNERS: dict[str, dict[str, Any]] = {
    "slots": {},
    "language": {
        "kind": "language",
        "language": {
            "model": "tiny",
            "tiny": {"vocab_size": 360, "hidden": 48, "layers": 2},
            "describe": False,
            "quote": "begun",
            "max_prompt_tokens": 96,
            "max_new_tokens": 64,
        },
    },
}


@pytest.mark.slow
@pytest.mark.timeout(1800)
@pytest.mark.parametrize("kind", PLANNERS)
def test_a_planner_learns_in_both_phases_and_each_goes_on_in_the_next_job(tmp_path: Path, kind: str) -> None:
    config = write_config(tmp_path, PLANNERS[kind])
    phase1, phase2 = tmp_path / "phase1", tmp_path / "phase2"
    write_data(phase1 / "input/data/training", config)
    epochs = "training.phase1_supervised.num_epochs"
    run(phase1, orchestai_train="phase1", **{epochs: "15"})
    first = metrics(phase1, "phase1")
    said = run(phase1, orchestai_train="phase1", **{epochs: "20"})
    assert "--resume" in said
    rows = metrics(phase1, "phase1")
    assert rows[: len(first)] == first
    assert [row["epoch"] for row in rows] == list(range(1, 21))

    best = next(path for path in (phase1 / "model").iterdir() if path.stem == "phase1_best")
    channel = phase2 / "input/data/checkpoint"
    channel.mkdir(parents=True)
    (shutil.copytree if best.is_dir() else shutil.copy)(best, channel / best.name)
    episodes = "training.phase2_rl.num_episodes"
    said = run(phase2, orchestai_train="phase2", **{episodes: "4"})
    assert f"--checkpoint {channel / best.name}" in said
    assert "--resume" not in said
    first = metrics(phase2, "phase2")
    said = run(phase2, orchestai_train="phase2", **{episodes: "8"})
    assert "--resume" in said
    rows = metrics(phase2, "phase2")
    assert rows[: len(first)] == first
    learned = [row for row in rows if "loss" in row]
    assert [row["update"] for row in learned] == [1, 2, 3, 4]
    assert any(row["grad_norm"] > 0 for row in learned)
    results = {path.stem for path in (phase2 / "model").iterdir()}
    assert {"phase2_best", "phase2_metrics"} <= results
    assert not (phase2 / "output/failure").exists()


def write_config(folder: Path, planner: dict[str, Any]) -> Config:
    plain = configuration(
        folder, learning_rate=1e-3, num_generations=6, credit="plan", save_every=1, max_invalid_share=None
    )
    values = plain.model_dump(mode="json", exclude_unset=True)
    values["planner"] |= planner
    values["training"]["phase1_supervised"] = {
        "learning_rate": 5e-3,
        "batch_size": 4,
        "patience": 100,
        "lr_schedule": "plateau",  # which may go on for longer than was asked for at first
    }
    values["sandbox"] = {"level": "process"}
    (folder / "config.yaml").write_text(yaml.safe_dump(values, sort_keys=False))
    return Config.model_validate(values)


def write_data(folder: Path, config: Config) -> None:
    """Tasks of which some went to one worker and some to the other, so that a planner is in doubt and tries both."""
    folder.mkdir(parents=True)
    assert config.tasks.path is not None
    examples = []
    lines = Path(config.tasks.path).read_text().splitlines()
    for i, task in enumerate(map(Task.model_validate_json, lines)):
        step = task.instruction[: task.instruction.index(".") + 1]
        subtask = Subtask(
            id="1",
            instruction=step,
            task_type="integer",
            worker=list(config.workers.pool)[i % 2],
            span=(0, len(step)),
        )
        examples.append(
            TrainingExample(
                instruction=task.instruction,
                workflow=Workflow([subtask]),
                rewards=Rewards(success=1, cost=0, latency=0),
                task_id=task.task_id,
                split=task.split,
            )
        )
    save_training_data(folder / "training_data.json", examples, config)


def run(root: Path, **hyperparameters: str) -> str:
    """What the entry prints; it succeeds."""
    inputs = root / "input/config"
    inputs.mkdir(parents=True, exist_ok=True)
    words = {"orchestai_config": str(root.parent / "config.yaml"), "orchestai_layout": "ddp", **hyperparameters}
    (inputs / "hyperparameters.json").write_text(json.dumps(words))
    environment = os.environ | {"SKIP_INSTALL": "1", "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    command = ["bash", str(REPOSITORY / ENTRY), "--root", str(root)]
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=900, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return ended.stdout


def metrics(root: Path, phase: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (root / f"checkpoints/{phase}_metrics.jsonl").read_text().splitlines()]
