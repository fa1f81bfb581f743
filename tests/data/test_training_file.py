"""What a training file may say, in its present form, its short one and that of the version before."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from orchestai.config import Config, load_config
from orchestai.data.indexed_plan import IndexedPlan, Vocabulary
from orchestai.data.training_file import data_fingerprint, load_training_data, meta_path, save_training_data
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


def test_a_file_of_the_version_before_loads_as_the_same_workflows(tmp_path: Path) -> None:
    """Eight parallel lists of indices then; what they say is all there, and is written as a workflow."""
    source = Path(__file__).parents[1] / "reference" / "inputs"
    config = load_config(source / "config.yaml")
    raw = json.loads((source / "training_data.json").read_text())
    examples = load_training_data(source / "training_data.json", config)
    vocabulary = Vocabulary.of(config)
    for before, example in zip(raw, examples, strict=True):
        plan = IndexedPlan.of(example.workflow, vocabulary).model_dump(mode="json")
        assert plan == before["targets"]
        assert example.model_dump(mode="json", include={"rewards", "split"}) == {
            key: before[key] for key in ("rewards", "split")
        }
    save_training_data(tmp_path / "data.json", examples, config)
    assert load_training_data(tmp_path / "data.json", config) == examples
    meta = json.loads(meta_path(source / "training_data.json").read_text())
    assert data_fingerprint(source / "training_data.json") == meta["fingerprint"]


def test_what_a_plan_leaves_open_and_takes_is_kept(tmp_path: Path, config: Config) -> None:
    """No type, no worker, no place in the instruction; ids of the source's own; durations of some steps."""
    targets = {
        "model_selections": [None, 1],
        "task_types": [None, 2],
        "dependencies": [[], [0]],
        "fallback": [[], [0]],
        "instructions": ["boil", "pour"],
        "ids": ["b", "a"],
        "durations": [180.0, None],
    }
    (tmp_path / "data.json").write_text(json.dumps([{"instruction": "Make tea", "targets": targets}]))
    (example,) = load_training_data(tmp_path / "data.json", config)
    assert example.seconds == {"b": 180.0}
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
    with pytest.raises(UserError, match="example 0: targets and workflow differ"):
        load_training_data(tmp_path / "full.json", config)
    full["workflow"]["subtasks"][1]["worker"] = "stranger"
    (tmp_path / "full.json").write_text(json.dumps([full]))
    with pytest.raises(UserError, match=r"example 0: 'stranger' is not in workers\.pool"):
        load_training_data(tmp_path / "full.json", config)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"targets": {**GOOD["targets"], "model_selections": [2, 0]}}, "task_types has 3 entries"),
        ({"targets": {**GOOD["targets"], "model_selections": [2, 0, 3]}}, "index 3, but workers.pool has 3"),
        ({"targets": {**GOOD["targets"], "task_types": [6, 0, 0]}}, "index 6, but planner.task_types has 6"),
        ({"targets": {**GOOD["targets"], "dependencies": [[1], [0], []]}}, "cycle"),
        ({"targets": {**GOOD["targets"], "spans": [[0, 99], None, None]}}, r"subtask '1': span \[0, 99\]"),
        ({"rewards": {"success": 1.0, "cost": 0.045, "latency": 0}}, "rewards.cost"),
        ({"schema_version": 3}, "schema_version is 3"),
        ({"prompt": "x"}, "prompt: Extra inputs"),
    ],
)
def test_a_file_of_another_schema_is_refused_at_its_first_fault(
    tmp_path: Path, config: Config, change: dict[str, Any], message: str
) -> None:
    path = tmp_path / "data.json"
    path.write_text(json.dumps([GOOD, GOOD | change]))
    with pytest.raises(UserError, match=message) as caught:
        load_training_data(path, config)
    assert str(caught.value).startswith(f"{path}: example 1: ")
    assert "\n" not in str(caught.value)
