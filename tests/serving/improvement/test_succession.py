"""A promoted planner takes over while requests are on their way."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from orchestai import Orchestrator
from orchestai.config import Config
from orchestai.planner.baselines import WholePlanner
from orchestai.planner.serving import ServedPlanner
from orchestai.serving.improvement.registry import Measured, PlannerRegistry, Trial, succession
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
