"""What somebody says of an answer over HTTP is seen on the page of the server's log."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="starlette is not installed (pip install 'orchestai[serve]')")

from orchestai.cli import main
from support.report import page as report_page
from support.serving.served import functions, serving, settings


def test_the_page_of_a_servers_log_shows_what_users_said(tmp_path: Path) -> None:
    url = f"sqlite:///{tmp_path}/served.db"
    config = settings({"pool": functions("good")}, ("good",), serving={"database": url})
    with serving(config, tmp_path / "logs") as served:
        runs = [served.chat(f"Question {n}.").json()["orchestai"]["run_id"] for n in range(3)]
        served.client.post("/v1/feedback", json={"run_id": runs[0], "score": 1.0})
        served.client.post("/v1/feedback", json={"run_id": runs[1], "score": 0.5, "answer": "Rome"})
    (tmp_path / "config.yaml").write_text(config.to_yaml())
    page = tmp_path / "page.html"
    with pytest.raises(SystemExit) as left:
        main(["report", str(tmp_path / "logs"), "-o", str(page), "--config", str(tmp_path / "config.yaml")])
    assert left.value.code == 0
    rows = {report_page.detail(page, row)["receipt"]["run_id"]: row for row in report_page.executions(page)}
    assert [rows[run]["outcome"] for run in runs] == ["solved", "failed", "answered"]
    assert report_page.detail(page, rows[runs[1]])["feedback"] == {"score": 0.5, "answer": "Rome"}
