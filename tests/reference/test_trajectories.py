"""Training takes the same steps as when its trajectories were recorded, and saved planners plan the same.

A change of layout must change no figure. Where torch, transformers and the instructions of the CPU are those of the
recording, figures are compared bit for bit; elsewhere sums are rounded otherwise, and figures are compared closely.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .families import FAMILIES
from .record import PLANS, TRAJECTORIES
from .trajectory import environment, plans, record

TOLERANCE = 1e-3
"""Relative distance that roundings of another processor or version may bring about in these few steps."""


@pytest.mark.parametrize("family", FAMILIES)
def test_training_takes_the_recorded_steps(family: str, tmp_path: Path) -> None:
    recorded = json.loads((TRAJECTORIES / f"{family}.json").read_text())
    steps = record(family, tmp_path / "run")
    if environment() == recorded["environment"]:
        assert steps == recorded["steps"], "renew it with python -m tests.reference.record if this is on purpose"
        return
    assert [row.keys() for row in steps] == [row.keys() for row in recorded["steps"]]
    for step, row in zip(steps, recorded["steps"], strict=True):
        assert step == pytest.approx(row, rel=TOLERANCE, abs=TOLERANCE)


def test_a_checkpoint_of_an_earlier_version_plans_the_same(tmp_path: Path) -> None:
    assert plans(tmp_path) == json.loads(PLANS.read_text())
