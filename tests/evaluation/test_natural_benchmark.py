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


@pytest.mark.parametrize(
    ("record", "said"),
    [
        ({"a": 1}, r"line 2 .*'steps'"),
        ([1], "line 2 .*TypeError"),
        (RECORD | {"edges": [["1", "9"]]}, "line 2 .*'9'"),
        (RECORD | {"canonical_solution": "def f(:"}, "line 2 .*SyntaxError"),
        (RECORD | {"canonical_solution": ""}, "line 2 .*StopIteration"),
    ],
)
def test_what_is_no_task_is_named_by_its_line(record: Any, said: str, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=said):
        read_tasks(file_of(tmp_path, record))


def test_a_file_without_tasks_gives_no_figures(tmp_path: Path) -> None:
    """They were nan."""
    with pytest.raises(UserError, match="no tasks"):
        read_tasks(file_of(tmp_path))
    with pytest.raises(UserError, match="cannot be read"):
        read_tasks(tmp_path / "absent.jsonl")


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


def test_the_errors_of_confidence_count_both_halves_alike_or_each_plan_once() -> None:
    """One wrong natural plan that was thought right beside nine of the suite that are: bins of two plans each."""
    suite = [Judged(0.9, 1.0, 1 / 9)] * 9
    natural = [Judged(0.9, 0.0, 1.0)]
    figures = summary([Measured({"natural": {"steps_right": [0.0]}}, {"natural": natural, "suite": suite})])
    confidence = figures["confidence"]
    assert confidence["natural_calibration_error"] == pytest.approx(0.9)
    assert confidence["suite_calibration_error"] == pytest.approx(0.1)
    assert confidence["each_plan_once_calibration_error"] == pytest.approx(0.1 * 0.8 + 0.2 * abs(0.9 - 0.5))
