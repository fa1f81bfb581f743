"""`orchestai plan`: the workflow on stdout, and on stderr whether `orchestai run` would follow it."""

from __future__ import annotations

import json
from pathlib import Path

from typer.testing import CliRunner

from orchestai.cli import app

REFERENCE = Path(__file__).parents[1] / "reference"
PLANNER = ("--config", str(REFERENCE / "inputs/config.yaml"), "--checkpoint", str(REFERENCE / "checkpoints/slots.pth"))


def test_the_workflow_alone_goes_to_stdout() -> None:
    done = CliRunner().invoke(app, ["plan", "1. add 10 to it", *PLANNER])
    assert json.loads(done.stdout)["subtasks"]
    assert "chance" in done.stderr or "probably" in done.stderr or "min_confidence" in done.stderr
