"""What `benchmarks/natural.py` reads: files of others, whose mistakes it names."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.natural import read_tasks
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
