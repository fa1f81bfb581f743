"""Ways of asking are compared on queries apart, by what they see."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
from typer.testing import CliRunner

from orchestai.cli import app

RNG = np.random.default_rng(0)
SKILL = {"dear": 0.8, "a": 0.7, "b": 0.7, "c": 0.7}


def write(path: Path, queries: range) -> None:
    words = RNG.integers(0, 999, (len(queries), 12))
    with path.open("w") as file:
        for row, own in zip(queries, words, strict=True):
            for worker, skill in SKILL.items():
                right = RNG.random() < skill
                cells = {"id": str(row), "query": " ".join(f"w{word}" for word in own), "worker": worker}
                cells |= {"score": float(right), "cost_usd": 0.01 if worker == "dear" else 0.001}
                file.write(json.dumps(cells | {"reply": str(row if right else RNG.integers(1000, 9999))}) + "\n")


def test_answers_are_judged_on_queries_apart(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write(Path("train.jsonl"), range(200))
    write(Path("test.jsonl"), range(200, 300))
    words = ["evaluate", "--table", "train.jsonl", "--reader", "jsonl", f"workers.cache_dir={tmp_path}", "--seeds", "1"]
    words += ["--json", "report.json"]
    for further, tested in ([], 200), (["--test_table", "test.jsonl"], 100):
        result = CliRunner().invoke(app, [*words, "--answers", "numbers", *further], catch_exceptions=False)
        assert result.exit_code == 0
        assert "unchecked" in result.output
        report = json.loads(Path("report.json").read_text())
        rows, success = report["train"], {row: own["success"]["mean"] for row, own in report["train"].items()}
        assert rows["ours"]["success"]["n"] == tested
        assert success["oracle"] >= success["ours"] > success["best_single"]
        assert rows["judge"]["usd_per_1000"]["mean"] < 5
        assert report["answers"]["calibration"]["judge"]["ece"] < 0.15
    result = CliRunner().invoke(app, [*words, "--test_table", "test.jsonl"], catch_exceptions=False)
    assert json.loads(Path("report.json").read_text())["table"]["test_sizes"] == [100]
