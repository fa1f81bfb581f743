"""A promoted planner takes over while requests are on their way, and a shadow plans what was answered."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from orchestai import Orchestrator
from orchestai.config import Config, ServingConfig
from orchestai.errors import UserError
from orchestai.planner.base import Plan
from orchestai.planner.baselines.reference import WholePlanner
from orchestai.planner.serving import ServedPlanner
from orchestai.serving.api.service import Service
from orchestai.serving.improvement.registry import Measured, PlannerRegistry, Trial
from orchestai.serving.improvement.shadow import FILE, Shadow
from orchestai.serving.improvement.succession import succession
from orchestai.serving.redaction import text_change
from orchestai.tasks.task import Task
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


async def test_a_version_that_cannot_be_read_leaves_the_one_before(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    registry = PlannerRegistry(tmp_path / "planners")
    registry.add(small_planner(tmp_path / "a.pth"))
    some = Measured(mean=0.5, low=0.4, high=0.6, n=9)
    better = Trial(incumbent=some, candidate=some, incumbent_usd=1, candidate_usd=1, difference=some)
    (tmp_path / "b.pth").write_bytes(b"nonsense")
    registry.add(tmp_path / "b.pth", parent=1, trial=better)
    first = str(registry.checkpoint(1))
    async with (
        Orchestrator.open(first, phase1.config(), log=None) as orchestrator,
        succession(orchestrator, every_s=0.05),
    ):
        registry.promote(2)
        for _ in range(100):
            if "cannot be taken over" in caplog.text:
                break
            await asyncio.sleep(0.05)
        assert "cannot be taken over" in caplog.text
        assert orchestrator.planner == first


async def test_a_shadow_plans_what_was_answered_and_answers_nothing(tmp_path: Path) -> None:
    asked: list[str] = []

    def plan(tasks: Sequence[Task]) -> list[Plan]:
        asked.extend(task.instruction for task in tasks)
        return WholePlanner("second").plan(tasks)

    async with Orchestrator.open(None, two_workers(), log=None) as orchestrator:
        orchestrator.take_over(ServedPlanner("incumbent", WholePlanner("first").plan))
        shadow = Shadow(ServedPlanner("candidate", plan), tmp_path)
        orchestrator.observe(shadow.observe)
        result = await orchestrator.run("How many?", answer="text")
        await shadow.finish()
    assert result.receipt.nodes[0].answered_by == "first"
    assert asked == ["How many?"]
    (line,) = map(json.loads, (tmp_path / FILE).read_text().splitlines())
    assert line["run_id"] == result.receipt.run_id
    assert (line["planner"], line["candidate"]) == ("incumbent", "candidate")
    assert (line["same_steps"], line["same_workers"]) == (True, False)


@pytest.mark.parametrize(
    ("section", "named"),
    [
        ({"shadow": "nowhere"}, "serving.shadow: nowhere: "),
        ({"checkpoints": {"new": "nowhere"}}, "serving.checkpoints.new: "),
    ],
)
async def test_a_planner_that_cannot_be_opened_is_named_as_in_the_configuration(
    section: dict[str, Any], named: str
) -> None:
    config = two_workers().model_copy(update={"serving": ServingConfig(**section)})
    orchestrator = Orchestrator.open(None, config, log=None)
    with pytest.raises(UserError) as refused:
        async with Service.opened(orchestrator):
            pass
    assert str(refused.value).startswith(named)
    assert "--checkpoint" not in str(refused.value)


async def test_a_shadow_keeps_no_more_than_the_log_and_plans_only_what_was_planned(tmp_path: Path) -> None:
    async with Orchestrator.open(None, two_workers(), log=None) as orchestrator:
        change = text_change(ServingConfig(log="metadata"))
        shadow = Shadow(ServedPlanner("candidate", WholePlanner("second").plan), tmp_path, change)
        orchestrator.observe(shadow.observe)
        await orchestrator.run("A secret.", answer="text")
        await orchestrator.run("For one worker.", answer="text", worker="first")
        await shadow.finish()
    (line,) = (tmp_path / FILE).read_text().splitlines()
    assert "secret" not in line
    assert json.loads(line)["same_steps"] is True


async def test_a_shadow_that_breaks_down_harms_nobody(tmp_path: Path) -> None:
    def broken(tasks: Sequence[Task]) -> list[Plan]:
        raise RuntimeError("out of order")

    async with Orchestrator.open(None, two_workers(), log=None) as orchestrator:
        shadow = Shadow(ServedPlanner("candidate", broken), tmp_path)
        orchestrator.observe(shadow.observe)
        result = await orchestrator.run("How many?", answer="text")
        await shadow.finish()
    assert result.receipt.status == "complete"
    assert not (tmp_path / FILE).exists()


async def until(orchestrator: Orchestrator, planner: str, name: str | None) -> None:
    for _ in range(200):
        if orchestrator.planner_named(name).name == planner:
            return
        await asyncio.sleep(0.05)
    raise AssertionError(f"{planner} does not plan after ten seconds")
