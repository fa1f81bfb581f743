"""What a training file may say, in its present form, its short one and that of the version before."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from orchestai.config import Config, load_config
from orchestai.data.training_file import load_training_data, meta_path, save_training_data
from orchestai.errors import UserError

CONFIG = """
planner: {task_types: [string, list, integer, dict, date, combine], max_subtasks: 5}
workers:
  pool:
    cheap: {kind: tool, tool: texts, card: cheap}
    middle: {kind: tool, tool: texts, card: middle}
    strong: {kind: tool, tool: texts, card: strong}
"""
GOOD: dict[str, Any] = {
    "instruction": "Summarize document...",
    "targets": {"model_selections": [2, 0, 1], "task_types": [3, 5, 4], "dependencies": [[], [0], [1]]},
    "rewards": {"success": 1.0, "cost": -0.045, "latency": -1.2},
}


@pytest.fixture
def config(tmp_path: Path) -> Config:
    path = tmp_path / "config.yaml"
    path.write_text(CONFIG)
    return load_config(path)


def test_the_short_form_written_by_hand_loads(tmp_path: Path, config: Config) -> None:
    (tmp_path / "data.json").write_text(json.dumps([GOOD]))
    (example,) = load_training_data(tmp_path / "data.json", config)
    assert example.workflow.dependencies() == [[], [0], [1]]
    assert [subtask.worker for subtask in example.workflow.subtasks] == ["strong", "cheap", "middle"]
    assert [subtask.task_type for subtask in example.workflow.subtasks] == ["dict", "combine", "date"]
    assert example.spans == []


def test_what_a_plan_leaves_open_is_kept(tmp_path: Path, config: Config) -> None:
    """No type, no worker, no place in the instruction; ids of the source's own."""
    targets = {
        "model_selections": [None, 1],
        "task_types": [None, 2],
        "dependencies": [[], [0]],
        "fallback": [[], [0]],
        "instructions": ["boil", "pour"],
        "ids": ["b", "a"],
    }
    (tmp_path / "data.json").write_text(json.dumps([{"instruction": "Make tea", "targets": targets}]))
    (example,) = load_training_data(tmp_path / "data.json", config)
    first, second = example.workflow.subtasks
    assert (first.id, first.instruction, first.worker, first.task_type, first.span) == ("b", "boil", "", "", None)
    assert (second.worker, second.fallback, second.task_type, second.depends_on) == (
        "middle",
        ("cheap",),
        "integer",
        ("b",),
    )
    save_training_data(tmp_path / "again.json", [example], config)
    assert load_training_data(tmp_path / "again.json", config) == [example]


def test_targets_that_say_something_else_than_the_workflow_beside_them_are_refused(
    tmp_path: Path, config: Config
) -> None:
    (tmp_path / "data.json").write_text(json.dumps([GOOD]))
    save_training_data(tmp_path / "full.json", load_training_data(tmp_path / "data.json", config), config)
    meta_path(tmp_path / "full.json").unlink()
    (full,) = json.loads((tmp_path / "full.json").read_text())
    assert {key: full["targets"][key] for key in GOOD["targets"]} == GOOD["targets"]
    (tmp_path / "full.json").write_text(json.dumps([full | {"targets": {**GOOD["targets"], "task_types": [0, 0, 0]}}]))
    with pytest.raises(UserError, match="example 0"):
        load_training_data(tmp_path / "full.json", config)
    full["workflow"]["subtasks"][1]["worker"] = "stranger"
    (tmp_path / "full.json").write_text(json.dumps([full]))
    with pytest.raises(UserError, match=r"example 0: 'stranger' is not in workers\.pool"):
        load_training_data(tmp_path / "full.json", config)
