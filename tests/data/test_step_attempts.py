"""Logged executions as attempts: who was asked, who passed, and who was probably to blame."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from orchestai.config import Config
from orchestai.data.prepare import fit_estimate, step_attempts
from orchestai.estimate.attempts import WHOLE, StepAttempts
from orchestai.execution.record import ExecutionRecord, PlanOutputs, RunOutputs, SubtaskRecord
from orchestai.execution.result import Attempt
from orchestai.planner.checkpoint import estimate_from, estimate_state, estimate_state_of, save_planner
from orchestai.planner.files import STATE_KEY
from orchestai.planner.slots.model import PlannerModel
from orchestai.workers.pool import worker_cards
from support.training import phase1

CARDS = worker_cards(phase1.config().workers)


def step(number: int, words: str, *attempts: tuple[str, bool | None], task_type: str = "list") -> SubtaskRecord:
    return SubtaskRecord(
        id=str(number),
        instruction=words,
        task_type=task_type,
        worker=attempts[0][0],
        fallback=tuple(name for name, _ in attempts[1:]),
        status="done",
        attempts=tuple(
            Attempt(worker=name, passed_check=check, cost_usd=0.5, latency_ms=2000, completion_tokens=7)
            for name, check in attempts
        ),
    )


def record(*steps: SubtaskRecord, success: bool, instruction: str = "Do this, then that.") -> ExecutionRecord:
    return ExecutionRecord(
        instruction=instruction,
        split="train",
        success=success,
        cost=1.0,
        latency_ms=4000,
        planner_outputs=PlanOutputs(),
        execution_result=RunOutputs(success=success, total_cost=1.0, total_latency_ms=4000),
        subtasks=steps,
    )


def log(count: int = 12) -> list[ExecutionRecord]:
    """`words` is always right when sorting; `lists` passes when it counts and is wrong each time."""
    good = record(step(1, "sort", ("words", True)), step(2, "reverse", ("words", True)), success=True)
    bad = record(step(1, "sort", ("words", True)), step(2, "count", ("slow", False), ("lists", True)), success=False)
    return [good, bad] * count


def columns(attempts: StepAttempts, words: str) -> tuple[list[float], list[float]]:
    tried, won = attempts.counts()
    row = attempts.texts.index(words)
    return tried[row].tolist(), won[row].tolist()


def test_counts_say_who_was_asked_who_passed_and_who_was_probably_right():
    attempts = step_attempts(log(), CARDS)
    assert attempts.workers == phase1.WORKERS
    tried, won = columns(attempts, "sort")
    assert tried == [24, 0, 0, 24, 0, 0]
    assert won[0] == 24
    assert won[3] / tried[3] > 0.9
    tried, won = columns(attempts, "count")
    assert tried == [0, 12, 12, 0, 12, 0]
    assert won[2] == 0
    assert won[4] / tried[4] < 0.1
    asked, means = attempts.spent()
    assert means[:, attempts.texts.index("sort"), 0].tolist() == [0.5, 2.0, 7.0]
    assert asked.sum() == len(attempts.row)


def test_a_whole_task_is_a_type_of_its_own_and_what_cannot_be_used_is_left_out():
    asked_whole = record(step(1, "Do this, then that.", ("slow", None), task_type=""), success=True)
    of_others = record(step(1, "sort", ("somebody else", True)), success=True)
    unjudged = log(1)[0].model_copy(update={"outcome": "unjudged"})
    attempts = step_attempts([asked_whole, of_others, unjudged], CARDS)
    assert attempts.task_types == (WHOLE,)
    assert attempts.planned == (((0, (2,)),),)
    assert columns(attempts, "Do this, then that.") == ([0, 0, 1, 0, 0, 1], [0, 0, 1, 0, 0, 1])


def test_a_checkpoint_keeps_the_estimate(tmp_path: Path):
    config: Config = phase1.config()
    estimate = fit_estimate(log(), config)
    assert estimate is not None
    torch.manual_seed(0)
    planner = PlannerModel(config.planner, CARDS)
    save_planner(tmp_path / "a.pth", planner, config, **{STATE_KEY: estimate_state(estimate)})
    kept = estimate_from(estimate_state_of(tmp_path / "a.pth"), "a.pth")
    for one, other in zip(estimate.steps(estimate.known), kept.steps(kept.known), strict=True):
        np.testing.assert_array_equal(one.right, other.right)
    save_planner(tmp_path / "b.pth", planner, config)
    assert estimate_state_of(tmp_path / "b.pth") is None
