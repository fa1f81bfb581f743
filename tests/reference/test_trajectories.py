"""Training takes the same steps as when its trajectories were recorded, and saved planners plan the same.

A change of layout must change no figure. Where torch, transformers and the instructions of the CPU are those of the
recording, figures are compared bit for bit, but for what depends on arrival; elsewhere sums are rounded otherwise, and
figures are compared closely.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .families import FAMILIES
from .record import PLANS, TRAJECTORIES
from .trajectory import environment, plans, record

TOLERANCE = 5e-4
"""Distance, relative above 1, that other roundings may bring about; with AVX2, and with neither, it was up to 9e-5."""

BY_ARRIVAL = {"mt_grpo_agents": 1e-5}
"""Families whose requests come from tools in threads: which of them share a batch, and so a rounding, depends on when
they come. Differences on a busy machine were up to 2e-6."""


@pytest.mark.parametrize("family", FAMILIES)
def test_training_takes_the_recorded_steps(family: str, tmp_path: Path) -> None:
    recorded = json.loads((TRAJECTORIES / f"{family}.json").read_text())
    tolerance = BY_ARRIVAL.get(family, 0.0) if environment() == recorded["environment"] else TOLERANCE
    steps = record(family, tmp_path / "run")
    assert [row.keys() for row in steps] == [row.keys() for row in recorded["steps"]]
    others = [
        f"step {i}: {name} was {before[name]!r}, is {now[name]!r}"
        for i, (before, now) in enumerate(zip(recorded["steps"], steps, strict=True))
        for name in before
        if not abs(now[name] - before[name]) <= tolerance * max(1.0, abs(before[name]))
    ]
    assert not others, "if this is on purpose, renew them: python -m tests.reference.record"


def test_a_checkpoint_of_an_earlier_version_plans_the_same(tmp_path: Path) -> None:
    assert plans(tmp_path) == json.loads(PLANS.read_text())
