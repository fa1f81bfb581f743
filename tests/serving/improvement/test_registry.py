"""Only a version that was better than the one that serves, beyond chance, may take its place."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orchestai.errors import UserError
from orchestai.serving.improvement.registry import (
    Measured,
    PlannerRegistry,
    Trial,
    registry_of,
    serving_checkpoint,
)


def checkpoint(folder: Path, content: str) -> Path:
    path = folder / f"{content}.pth"
    path.write_text(content)
    return path


def trial(low: float | None, high: float | None) -> Trial:
    some = Measured(mean=0.5, low=0.4, high=0.6, n=100)
    difference = Measured(mean=None if low is None else (low + (high or 0)) / 2, low=low, high=high, n=100)
    return Trial(incumbent=some, candidate=some, incumbent_usd=1, candidate_usd=1, difference=difference)


@pytest.fixture
def registry(tmp_path: Path) -> PlannerRegistry:
    registry = PlannerRegistry(tmp_path / "planners")
    registry.add(checkpoint(tmp_path, "first"))
    return registry


def test_the_first_planner_serves_at_once(registry: PlannerRegistry) -> None:
    current = registry.current
    assert current is not None
    assert registry.checkpoint(current.version).read_text() == "first"
    assert serving_checkpoint(str(registry.folder)) == str(registry.checkpoint(1))
    found = registry_of(registry.checkpoint(1))
    assert found is not None
    assert found.folder == registry.folder
    assert registry_of("checkpoints/phase1_best.pth") is None


def test_a_better_version_is_promoted_and_rolled_back(registry: PlannerRegistry, tmp_path: Path) -> None:
    lineage = registry.add(checkpoint(tmp_path, "second"), parent=1, trial=trial(0.01, 0.1))
    assert registry.current is not None
    assert registry.current.version == 1, "nobody has promoted it yet"
    assert registry.promote(lineage.version).version == 2
    assert registry.rollback().version == 1
    with pytest.raises(UserError, match="since the beginning"):
        registry.rollback()


@pytest.mark.parametrize(("low", "high"), [(-0.01, 0.2), (-0.3, -0.1), (0.0, 0.2), (None, None)])
def test_one_that_may_be_no_better_is_not(
    registry: PlannerRegistry, tmp_path: Path, low: float | None, high: float | None
) -> None:
    lineage = registry.add(checkpoint(tmp_path, "second"), parent=1, trial=trial(low, high))
    with pytest.raises(UserError, match="exclude 0"):
        registry.promote(lineage.version)


def test_an_interrupted_addition_leaves_nothing(registry: PlannerRegistry, tmp_path: Path) -> None:
    with pytest.raises(UserError):
        registry.add(tmp_path / "nothing.pth")
    assert registry.versions() == [1]
    (registry.folder / "current.json").write_text(json.dumps({"version": "x"}))
    with pytest.raises(UserError, match=r"current\.json: damaged"):
        registry.promote(1)
