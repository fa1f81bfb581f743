"""The page's data: every run that we write can be shown, and what cannot be read is said, never fatal."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from orchestai.errors import UserError
from orchestai.report.build import build_report, distinct_names
from orchestai.report.rollouts import _shown
from support.report import page as report_page
from support.report.folders import judged_record, served_record, write_log, write_phase2

ROOT = Path(__file__).parents[2]


def build(tmp_path: Path, *folders: Path, most_embedded: int = 10**6) -> tuple[Path, list[str]]:
    page = tmp_path / "report.html"
    return page, build_report(folders, page, most_embedded=most_embedded)


def test_every_execution_is_a_row_with_its_details(tmp_path: Path) -> None:
    records = [judged_record(0, planner="reference"), judged_record(0, success=False), served_record(2)]
    page, problems = build(tmp_path, write_log(tmp_path / "logs", records))
    rows = report_page.executions(page)
    assert problems == []
    assert [row["outcome"] for row in rows] == ["solved", "failed", "answered"]
    assert [row["reason"] for row in rows] == ["", "a step without an answer", ""]
    assert [row["reference"] for row in rows] == [None, 0, None]
    assert [row["escalations"] for row in rows] == [1, 1, 1]
    failed = report_page.detail(page, rows[1])
    assert [attempt["worker"] for attempt in failed["subtasks"][0]["attempts"]] == ["cheap", "strong"]
    assert failed["subtasks"][1]["error"] == "2: down"
    assert report_page.detail(page, rows[2])["receipt"]["spent_usd"] == 0.5


def test_worker_asked_first_is_compared_with_the_cheapest_that_passed(tmp_path: Path) -> None:
    page, _ = build(tmp_path, write_log(tmp_path / "logs", [judged_record(n) for n in range(3)]))
    choices = report_page.data(page)["choices"]
    assert choices["workers"] == ["cheap", "strong"]
    assert choices["best"] == ["cheap", "strong", "nobody"]
    assert choices["counts"] == [[0, 3, 0], [0, 3, 0]]


def test_torn_lines_foreign_lines_and_newer_versions_are_named_and_passed_over(tmp_path: Path) -> None:
    newer = json.loads(judged_record().model_dump_json()) | {"schema_version": 99}
    torn = '{"planner_outputs": 1}\n' + json.dumps(newer) + '\n{"schema_version":1,"instr'
    page, problems = build(tmp_path, write_log(tmp_path / "logs", [judged_record()], torn))
    assert len(report_page.executions(page)) == 1
    assert [problem.split(": ")[1] for problem in problems] == ["log.jsonl:2", "log.jsonl:3", "log.jsonl:4"]


def test_what_is_not_finite_or_of_another_shape_spoils_nothing_else(tmp_path: Path) -> None:
    """A browser reads no NaN, and one in a chunk used to take 150 executions with it."""
    folder = write_phase2(tmp_path / "run", updates=1)
    (group,) = [json.loads(line) for line in (folder / "phase2_rollouts.jsonl").read_text().splitlines()[:1]]
    odd = [
        {"reward": float("nan")},
        {"reward": True, "update": {"a": 1}},
        {"transcript": "[a] user: x", "speeches": [["a", "user"], 3]},
        {"turns": [{"decisions": 7}, 8]},
        {"transcript": "", "unscorable": "nothing was said"},
        {"transcript": "words of nobody"},
        {"turns": 3, "rewards": {"success": {"value": float("inf"), "weight": 1.0}}},
    ]
    with (folder / "phase2_rollouts.jsonl").open("a") as file:
        file.writelines(json.dumps(group | {"task_id": f"odd/{n}"} | other) + "\n" for n, other in enumerate(odd))
    broken = judged_record().model_copy(update={"reward": float("nan"), "score": float("inf")})
    write_log(folder, [broken, judged_record(1)])
    page, _ = build(tmp_path, folder)
    index = report_page.index(page)
    groups = [dict(zip(index["groupColumns"], row, strict=True)) for row in index["groups"]]
    assert [group["rewards"] for group in groups[1:3]] == [[None], [1.0]]
    assert [len(report_page.detail(page, group)) for group in groups] == [2, *[1] * len(odd)]
    assert [row["reward"] for row in report_page.executions(page)] == [None, 1.5]


def test_files_that_cannot_be_read_are_named_and_pipes_not_waited_for(tmp_path: Path) -> None:
    folder = write_log(tmp_path / "logs", [judged_record()])
    (folder / "gone.jsonl").symlink_to("nowhere")
    (folder / "empty.jsonl").touch()
    (folder / "torn.jsonl").write_text('{"instruction": "so')
    os.mkfifo(folder / "pipe.jsonl")
    page, problems = build(tmp_path, folder, folder / "empty.jsonl")
    assert len(report_page.executions(page)) == 1
    assert [problem.split(": ")[1:3] for problem in problems] == [
        ["gone.jsonl", "not readable"],
        ["torn.jsonl", "not readable"],
        ["empty.jsonl", "empty so far"],
    ]


def test_evaluations_of_another_shape_lose_what_is_not_a_number(tmp_path: Path) -> None:
    rows = [
        {"name": "a", "success": "x", "cost_usd": [], "success_ci": [1], "n": None},
        {"name": "b", "success": 0.5, "cost_usd": 0, "success_ci": [0.1, 0.9], "n": 3},
        7,
    ]
    value = {
        "rows": rows,
        "conclusion": ["it works"],
        "differences": [{"of": "a"}, 3],
        "preferences": {"reliability": 4},
    }
    (tmp_path / "evaluation.json").write_text(json.dumps(value))
    page, problems = build(tmp_path, tmp_path / "evaluation.json")
    (shown,) = report_page.data(page)["evaluations"]
    assert problems == []
    assert [(row["name"], row["success"], row["success_ci"], row["role"]) for row in shown["rows"]] == [
        ("a", None, None, "ours"),
        ("b", 0.5, [0.1, 0.9], "other"),
    ]
    assert shown["differences"] == shown["preferences"] == []


def test_feedback_on_served_runs_is_their_outcome(tmp_path: Path) -> None:
    logs = write_log(tmp_path / "logs", [served_record(n) for n in range(4)])
    said = {
        "r0": {"score": 1.0, "answer": None, "tests": None},
        "r1": {"score": 0.25, "answer": "Rome", "tests": None},
        "r2": {"score": None, "answer": None, "tests": "assert f()"},
    }
    page = tmp_path / "report.html"
    assert build_report([logs], page, feedback=lambda: said) == []
    rows = report_page.executions(page)
    assert [(row["outcome"], row["reason"], row["score"]) for row in rows] == [
        ("solved", "scored by its user", 1.0),
        ("failed", "scored by its user", 0.25),
        ("answered", "its user gave tests", None),
        ("answered", "", rows[3]["score"]),
    ]
    assert report_page.detail(page, rows[1])["feedback"] == {"score": 0.25, "answer": "Rome"}
    assert report_page.data(page)["totals"][0]["scores"] == [1.0, 0.25]


def test_feedback_that_cannot_be_read_is_missed_once_and_not_asked_for_without_served_runs(tmp_path: Path) -> None:
    def unreachable() -> dict[str, dict[str, str]]:
        raise UserError("the database is down")

    served = write_log(tmp_path / "served", [served_record(n) for n in range(3)])
    page = tmp_path / "report.html"
    assert build_report([served], page, feedback=unreachable) == [
        "served: feedback on served runs is not shown: the database is down"
    ]
    assert build_report([write_log(tmp_path / "logs", [judged_record()])], page, feedback=unreachable) == []


def test_an_empty_folder_gives_a_page_that_says_what_is_missing(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    page, problems = build(tmp_path, tmp_path / "empty")
    assert problems == []
    assert [missing["what"] for missing in report_page.data(page)["missing"]] == [
        "executions",
        "training curves",
        "an evaluation",
        "groups of attempts",
    ]


def test_a_run_in_progress_is_shown_as_far_as_it_is(tmp_path: Path) -> None:
    folder = write_phase2(tmp_path / "run")
    for name in ("phase2_metrics.jsonl", "phase2_rollouts.jsonl"):
        with (folder / name).open("a") as file:
            file.write('{"update": 4, "rew')
    (folder / "phase1_metrics.jsonl").touch()
    page, problems = build(tmp_path, folder)
    held = report_page.data(page)
    reward = next(curve for curve in held["curves"] if curve["title"] == "Reward")
    assert [label["label"] for label in reward["series"]] == ["sampled, training tasks", "greedy, validation tasks"]
    assert len(reward["series"][0]["points"]) == 3
    entropy = next(curve for curve in held["curves"] if curve["title"].startswith("Entropy"))
    assert entropy["guards"] == [{"value": 0.2, "label": "stops below, 10 updates in a row"}]
    assert len(report_page.index(page)["groups"]) == 3
    assert len(problems) == 2


def test_plans_of_a_group_are_read_into_steps(tmp_path: Path) -> None:
    page, _ = build(tmp_path, write_phase2(tmp_path / "run", updates=1))
    held = report_page.index(page)
    group = dict(zip(held["groupColumns"], held["groups"][0], strict=True))
    assert group["rewards"] == [0.0, 1.0]
    attempts = report_page.detail(page, group)
    assert attempts[0]["steps"] == [
        {"id": "1", "workers": ["cheap", "strong"], "instruction": "sort it", "depends_on": []},
        {"id": "2", "workers": ["strong"], "instruction": "join it", "depends_on": ["1"]},
    ]


def test_words_that_look_like_a_speech_are_one_only_in_older_runs() -> None:
    said = "[a] user: hello\n\n[b] user: not a speech\n\n[a] assistant: yes"
    parts = [["a", "user", len("hello\n\n[b] user: not a speech")], ["a", "assistant", 3]]
    shown = _shown({"transcript": said, "speeches": parts})
    assert [speech["text"] for speech in shown["speeches"]] == ["hello\n\n[b] user: not a speech", "yes"]
    assert [speech["role"] for speech in _shown({"transcript": said})["speeches"]] == ["a", "b", "a"]
    assert len(_shown({"transcript": said, "speeches": [["x", "user", 1]]})["speeches"]) == 3


def test_details_beyond_the_limit_lie_beside_the_page_and_vanish_with_the_next(tmp_path: Path) -> None:
    records = [judged_record(n, text=f" {n}" + "x" * 10_000) for n in range(60)]
    page, _ = build(tmp_path, write_log(tmp_path / "logs", records), most_embedded=1_000)
    last = report_page.executions(page)[-1]
    assert last["chunk"] > 3
    assert last["text"] + report_page.detail(page, last)["rest"] == records[-1].instruction
    assert (tmp_path / "report.chunks").is_dir()
    assert " file:;" in page.read_text()
    build(tmp_path, tmp_path / "logs")
    assert not (tmp_path / "report.chunks").exists()


def test_figures_in_the_docs_are_shown(tmp_path: Path) -> None:
    page, problems = build(tmp_path, ROOT / "docs/results")
    held = report_page.data(page)
    assert problems == []
    suites = {one["suite"]: one for one in held["evaluations"]}
    assert {row["role"] for row in suites["composition"]["rows"]} == {"ours", "other", "whole", "oracle"}
    assert suites["composition"]["conclusion"]
    assert len(suites["routerbench"]["hull"]) > 2
    assert held["reliability"]
    assert any(row[5] for row in report_page.index(page)["groups"])


def test_runs_of_one_name_are_told_apart() -> None:
    assert distinct_names([Path("a/run"), Path("b/run")], ["run", "run"]) == ["a/run", "b/run"]
    assert distinct_names([Path("a/x"), Path("a/y")], ["x", "y"]) == ["x", "y"]


def test_what_is_not_there_is_refused_with_a_remedy(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such file or folder; name a log"):
        build(tmp_path, tmp_path / "absent")
    with pytest.raises(UserError, match="name the file to write"):
        build_report([tmp_path], tmp_path)
    log = write_log(tmp_path / "logs", [judged_record()]) / "log.jsonl"
    with pytest.raises(UserError, match="may be something else"):
        build_report([log], log)
    assert log.read_text()
