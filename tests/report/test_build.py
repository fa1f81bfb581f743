"""The page's data: every run that we write can be shown, and what cannot be read is said, never fatal."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from orchestai.cli import main
from orchestai.errors import UserError
from orchestai.report.build import build_report
from support.report import page as report_page
from support.report.folders import judged_record, served_record, write_log, write_phase2
from support.report.hostile_text import HOSTILE

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


def test_torn_lines_foreign_lines_and_newer_versions_are_named_and_passed_over(tmp_path: Path) -> None:
    newer = json.loads(judged_record().model_dump_json()) | {"schema_version": 99}
    torn = '{"planner_outputs": 1}\n' + json.dumps(newer) + '\n{"schema_version":1,"instr'
    page, problems = build(tmp_path, write_log(tmp_path / "logs", [judged_record()], torn))
    assert len(report_page.executions(page)) == 1
    assert [problem.split(": ")[1] for problem in problems] == ["log.jsonl:2", "log.jsonl:3", "log.jsonl:4"]


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


# Text of models in logs and answers does nothing to the terminal that a command was started in.


ACTING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2028\u2029\u2066-\u2069]")


def test_problems_with_hostile_names_and_lines_are_told_in_plain_letters(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "logs"
    folder.mkdir()
    line = json.loads(judged_record().model_dump_json())
    for number, text in enumerate(HOSTILE):
        name = text[:40].replace("/", " ").replace("\0", "").encode(errors="ignore").decode()
        lines = [line, line | {"outcome": text}, line | {text: text, "cost": text}]
        (folder / f"{number} {name}.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines))
        (folder / f"{number} {name}.json").write_text(f'{{"{name}\x1b[2J')
    with pytest.raises(SystemExit) as left:
        main(["report", str(folder), "-o", str(tmp_path / "page.html")])
    said = capfd.readouterr()
    assert left.value.code == 0
    assert "not an execution" in said.err
    assert ACTING.findall(said.out + said.err) == []


def test_errors_that_quote_others_act_on_no_terminal(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    def refuse(**_: object) -> None:
        raise UserError("the server said: \x1b]0;title\x07\n\x1b[2Jgone")

    monkeypatch.setattr("orchestai.cli.application.app", refuse)
    with pytest.raises(SystemExit):
        main([])
    said = capfd.readouterr().err
    assert "gone" in said
    assert ACTING.findall(said) == []
