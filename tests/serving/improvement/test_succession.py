"""A promoted planner takes over while requests are on their way."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from orchestai import Orchestrator
from orchestai.config import Config
from orchestai.errors import UserError
from orchestai.planner.baselines import WholePlanner
from orchestai.planner.serving import ServedPlanner
from orchestai.serving.improvement.registry import (
    Measured,
    PlannerRegistry,
    Trial,
    registry_of,
    serving_checkpoint,
    succession,
)
from support.serving.contract_workers import PRICE
from support.training import phase1
from support.training.planner_files import small_planner


def two_workers() -> Config:
    worker = {
        "kind": "function",
        "function": "support.serving.contract_workers:good",
        "card": "Repeats what it is asked.",
        "price_per_call_usd": PRICE,
    }
    pool = {"first": worker, "second": {**worker, "card": "Repeats it as well."}}
    return Config(workers={"pool": pool, "cache_dir": None}, sandbox={"level": "process"})


async def test_nothing_is_dropped_when_a_planner_takes_over() -> None:
    async with Orchestrator.open(None, two_workers(), log=None) as orchestrator:
        orchestrator.take_over(ServedPlanner("before", WholePlanner("first").plan))
        running = [asyncio.ensure_future(orchestrator.run(f"Question {i}?", answer="text")) for i in range(40)]
        await asyncio.sleep(0.01)
        orchestrator.take_over(ServedPlanner("after", WholePlanner("second").plan))
        running += [asyncio.ensure_future(orchestrator.run(f"Question {i}?", answer="text")) for i in range(40)]
        results = await asyncio.gather(*running)
    assert [result.receipt.planner for result in results] == ["before"] * 40 + ["after"] * 40
    assert {result.receipt.nodes[0].answered_by for result in results[40:]} == {"second"}


@pytest.mark.parametrize("name", [None, "other"])
async def test_a_server_follows_its_registries(tmp_path: Path, name: str | None) -> None:
    registry = PlannerRegistry(tmp_path / "planners")
    registry.add(small_planner(tmp_path / "a.pth"))
    some = Measured(mean=0.5, low=0.4, high=0.6, n=9)
    better = Trial(incumbent=some, candidate=some, incumbent_usd=1, candidate_usd=1, difference=some)
    registry.add(small_planner(tmp_path / "b.pth", seed=1), parent=1, trial=better)
    first, second = (str(registry.checkpoint(version)) for version in (1, 2))
    orchestrator = Orchestrator.open(None if name else first, phase1.config(), log=None)
    async with orchestrator, succession(orchestrator, {name: str(registry.folder)} if name else None, 0.05):
        assert orchestrator.planner_named(name).name == first
        registry.promote(2)
        await until(orchestrator, second, name)
        registry.rollback()
        await until(orchestrator, first, name)


async def until(orchestrator: Orchestrator, planner: str, name: str | None) -> None:
    for _ in range(200):
        if orchestrator.planner_named(name).name == planner:
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"{planner} does not plan after ten seconds")


# Only a version that was better than the one that serves, beyond chance, may take its place.


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
