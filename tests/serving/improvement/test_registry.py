"""Only a version that was better than the one that serves, beyond chance, may take its place."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from orchestai.cli.serving.improve import _report
from orchestai.errors import UserError
from orchestai.serving.improvement.registry import Lineage, Measured, PlannerRegistry, Trial
from orchestai.serving.improvement.succession import registry_of, serving_checkpoint


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


def test_one_that_was_compared_with_another_is_not(registry: PlannerRegistry, tmp_path: Path) -> None:
    """Better than what served once says nothing of what serves now."""
    for name in ("second", "third"):
        registry.add(checkpoint(tmp_path, name), parent=1, trial=trial(0.01, 0.1))
    registry.promote(2)
    with pytest.raises(UserError, match="not compared with version 2"):
        registry.promote(3)
    with pytest.raises(UserError, match="serves already"):
        registry.promote(2)
    with pytest.raises(UserError, match="no version 9"):
        registry.promote(9)


def test_an_interrupted_addition_leaves_nothing(registry: PlannerRegistry, tmp_path: Path) -> None:
    with pytest.raises(UserError):
        registry.add(tmp_path / "nothing.pth")
    assert registry.versions() == [1]
    (registry.folder / "current.json").write_text(json.dumps({"version": "x"}))
    with pytest.raises(UserError, match=r"current\.json: damaged"):
        registry.promote(1)


def test_what_improve_prints_says_why_runs_were_left_out() -> None:
    """Feedback from which nothing was learned would not be missed."""
    learned = {"runs": 9, "succeeded": 5, "phase2_tasks": 0, "left_out": {"it was interrupted": 3}}
    lineage = Lineage(version=2, parent=1, made_at="", fingerprint="", learned=learned, trial=trial(0.1, 0.2))
    assert "left out: 3, it was interrupted" in _report(lineage)
