"""The command line as a whole: what is typed reaches the command that is meant, and help waits for no library."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from typer.testing import CliRunner

from orchestai.cli import app

HEAVY = ("torch", "transformers", "omegaconf", "networkx", "pydantic")


def test_help_imports_no_library_that_it_does_not_need():
    """It is what a newcomer types first, and what completion runs for each word."""
    program = f"""
import sys
from orchestai.cli import app
app(["--help"], standalone_mode=False)
print(sorted(set({HEAVY}) & set(sys.modules)), file=sys.stderr)
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "evaluate-plans" in done.stdout
    assert done.stderr.strip() == "[]"


@pytest.mark.parametrize("path", [["data/instructions"], []], ids=["as in the documentation", "left out"])
def test_the_synthetic_plans_that_ship_are_read_from_any_folder(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    words = ["prepare-plans", "--from", "instructions", *path, "--output", "plans.json"]
    done = CliRunner().invoke(app, words)
    assert done.exit_code == 0, (done.output, done.exception)
    assert len(json.loads((tmp_path / "plans.json").read_text())) > 2000
