"""What `benchmarks/natural.py` reads, files of others whose mistakes it names, and how it sums up checkpoints."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.natural import Judged, Measured, read_measured, summary
from benchmarks.natural_tasks import read_tasks
from orchestai.errors import UserError

RECORD: dict[str, Any] = {
    "task_id": "natural/0",
    "instruct_prompt": "Sort the names\u2028and count them.",
    "entry_point": "task_func",
    "canonical_solution": "def step_1(names):\n    return sorted(names)\n\n\ndef step_2(v1):\n    return len(v1)\n\n\n"
    "def task_func(names):\n    v1 = step_1(names)\n    v2 = step_2(v1)\n    return v2\n",
    "test": "",
    "steps": [{"id": "1", "span": [0, 14]}, {"id": "2", "span": [19, 29], "acceptable": [[15, 29]]}],
    "edges": [["1", "2"]],
}


def file_of(folder: Path, *records: Any) -> Path:
    file = folder / "tasks.jsonl"
    file.write_text("\n".join(["", *(json.dumps(one, ensure_ascii=False) for one in records), ""]), encoding="utf-8")
    return file


def test_a_task_has_its_steps_edges_and_arguments(tmp_path: Path) -> None:
    """Lines end where files end them, not at what Unicode calls a line separator."""
    (one,) = read_tasks(file_of(tmp_path, RECORD))
    assert one.spans == (((0, 14),), ((19, 29), (15, 29)))
    assert one.edges == {(0, 1)}
    assert one.arguments == (("names",), (0,))


def measured(*right: float, longer: int = 2) -> Measured:
    scores = {"natural": {"steps_right": [*right]}, "longer": {"exact": [1.0] * longer}}
    return Measured(scores, {"natural": [Judged(0.5, one, 1 / len(right)) for one in right]})


def test_checkpoints_that_are_measured_one_at_a_time_give_the_figures_of_all(tmp_path: Path) -> None:
    """A training takes an hour: three of them do not always lie side by side."""
    seeds = [measured(1, 0, 1), measured(1, 1, 1)]
    earlier = tmp_path / "a.json"
    earlier.write_text(json.dumps({"file": "x", "measured": [seeds[0].to_dict()]}))
    assert summary([*read_measured([earlier], "x", 3), seeds[1]]) == summary(seeds)
    assert summary(seeds)["natural"]["steps_right"]["each"] == pytest.approx([2 / 3, 1])
    with pytest.raises(UserError, match="measured other tasks than these 3"):
        read_measured([earlier], "y", 3)
    earlier.write_text("{}")
    with pytest.raises(UserError, match="is no JSON file of this benchmark"):
        read_measured([earlier], "x", 3)
    with pytest.raises(UserError, match="another --longer"):
        summary([measured(1, 0), measured(1, 0, longer=4)])
