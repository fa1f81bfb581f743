"""Sampling ahead: what is gained (sampling while executing), what is bounded (staleness), and what stays on policy."""

from __future__ import annotations

import asyncio
import json
from concurrent.futures import Future

import pytest
import torch

from orchestai.errors import UserError
from orchestai.outcome import Reward, Unscorable
from orchestai.training.rl.monitoring.training_report import ROLLOUTS
from orchestai.training.rl.rollouts.staleness import describe_staleness, refuse_stale
from orchestai.types import Episode, Trajectory, Turn
from support.training import bandit
from support.training.bandit_training import killed_at, train

AHEAD = {"on_policy": False}


class Watched(bandit.Bandit):
    """Samples each batch while an earlier one is executed, as far as the trainer lets it: they wait for each other.

    Args:
        ahead: batches that are sampled before the one that is executed is learned from.
        batches: of the run, which attempts no task twice.
    """

    def __init__(self, ahead: int, batches: int) -> None:
        super().__init__()
        self.ahead = ahead
        self.executing = 0
        self.planning = False
        self.sampled_while_executing: list[int] = []
        self.batch_of: dict[str, int] = {}
        self.sampling_began = [Future[None]() for _ in range(batches)]
        self.execution_began = [Future[None]() for _ in range(batches)]

    def plan(self, tasks, *, sample=None, preferences=None):
        if sample is None:
            return super().plan(tasks)
        self.planning = True
        batch = len(self.sampled_while_executing)
        if self.ahead and batch:
            self.execution_began[max(batch - self.ahead, 0)].result(timeout=60)
        self.batch_of |= {task.task_id: batch for task in tasks}
        self.sampled_while_executing.append(self.executing)
        self.sampling_began[batch].set_result(None)
        plans = super().plan(tasks, sample=sample)
        self.planning = False
        return plans

    def score(self, *args, **kwargs):
        assert not (torch.is_grad_enabled() and self.planning), "weights change while plans are sampled"
        return super().score(*args, **kwargs)

    async def execute(self, task, workflow, sample=0):
        batch = self.batch_of.get(task.task_id)
        if batch is None:  # of the validation before the first update
            return await bandit.execute(task, workflow, sample)
        self.executing += 1
        if not self.execution_began[batch].done():
            self.execution_began[batch].set_result(None)
        last = min(batch + self.ahead, len(self.sampling_began) - 1)
        await asyncio.wrap_future(self.sampling_began[last])
        self.executing -= 1
        return await bandit.execute(task, workflow, sample)


@pytest.mark.parametrize("ahead", [0, 1, 2])
def test_the_next_batches_are_sampled_while_one_is_executed(tmp_path, ahead):
    """A batch fits in one chunk here, so on policy nothing can be sampled while its plans run."""
    planner = Watched(ahead, batches=6)
    tasks = [bandit.TASKS[0].model_copy(update={"task_id": str(i)}) for i in range(72)]
    changes = {"num_episodes": 72, "micro_batch_size": 200, "on_policy": not ahead, "max_staleness": max(ahead, 1)}
    train(tmp_path, planner, tasks=tasks, execute=planner.execute, **changes)
    assert [running > 0 for running in planner.sampled_while_executing] == [False] + [ahead > 0] * 5
    figures = bandit.rows(tmp_path)
    assert [row["max_staleness"] for row in figures] == [min(i, ahead) for i in range(6)]
    assert all(row["staleness"] <= row["max_staleness"] for row in figures)
    assert figures[-1]["unscorable_share"] == 0


def test_it_learns_from_what_was_sampled_ahead(tmp_path):
    changes = {"learning_rate": 0.3, "num_episodes": 24 * 5, "num_minibatches": 2, "max_staleness": 2}
    planner, _ = train(tmp_path, **AHEAD, **changes)
    assert planner.expected_reward() > 0.9
    rows = bandit.rows(tmp_path)
    assert 0 < max(row["max_staleness"] for row in rows) <= 2, "in updates, not in optimiser steps"
    assert rows[-1]["max_ratio"] > 1


def test_the_first_batch_and_the_order_of_tasks_are_those_on_policy(tmp_path):
    ahead, _ = tmp_path / "ahead", train(tmp_path / "ahead", **AHEAD)
    own, _ = tmp_path / "own", train(tmp_path / "own")
    first, other = ([json.loads(x) for x in (at / ROLLOUTS).read_text().splitlines()] for at in (ahead, own))
    assert first[:8] == other[:8]
    assert [(row["update"], row["task_id"]) for row in first] == [(row["update"], row["task_id"]) for row in other]


def test_a_killed_run_samples_again_what_it_had_sampled_ahead(tmp_path):
    """From the weights that it resumes with, so it is not bit-equal, but every task comes in its turn."""
    changes = {"eval_every": 2, "num_episodes": 24 * 3, **AHEAD}
    train(tmp_path / "whole", **changes)
    with pytest.raises(KeyboardInterrupt):
        train(tmp_path / "killed", execute=killed_at(300), **changes)
    _, summary = train(tmp_path / "killed", resume=True, **changes)
    assert summary.updates == 6
    whole, other = (
        [json.loads(line) for line in (tmp_path / run / ROLLOUTS).read_text().splitlines()]
        for run in ("whole", "killed")
    )
    assert [(row["update"], row["task_id"]) for row in whole] == [(row["update"], row["task_id"]) for row in other]


def test_what_fails_while_sampling_ahead_ends_the_run(tmp_path):
    class Broken(bandit.Bandit):
        calls = 0

        def plan(self, tasks, *, sample=None, preferences=None):
            self.calls += sample is not None
            if self.calls == 3:
                raise UserError("the engine is gone")
            return super().plan(tasks, sample=sample)

    with pytest.raises(UserError, match="the engine is gone"):
        train(tmp_path, Broken(), micro_batch_size=200, **AHEAD)


def episode(version: int) -> Episode:
    nothing = torch.zeros(1)
    turn = Turn(None, nothing, nothing == 0, nothing, nothing.long(), version)  # type: ignore[arg-type]
    return Episode("t", "t", (Trajectory("planner", "planner", (turn,)),), Reward(1.0))


def test_plans_older_than_the_bound_are_neither_learned_from_nor_zero():
    """Whatever drew them: it is judged by the version that the engine says, two optimizer steps per update here."""
    episodes = [episode(version) for version in (2, 4, 5, 6)]
    settings = bandit.settings(on_policy=False, max_staleness=1, num_iterations=2)
    kept = refuse_stale(episodes, {"planner": 6}, settings)
    assert [isinstance(one.outcome, Unscorable) for one in kept] == [True, False, False, False]
    assert kept[0].outcome.reason == "stale: it was drawn 2 updates ago, and training.phase2_rl allows 1"
    assert describe_staleness(episodes, {"planner": 6}, settings) == {
        "staleness": pytest.approx(3.5 / 4),
        "max_staleness": 2.0,
    }
    strict = refuse_stale(episodes, {"planner": 6}, bandit.settings(num_iterations=2))
    assert [isinstance(one.outcome, Unscorable) for one in strict] == [True, True, True, False]


@pytest.mark.parametrize("loss_type", ["rloo", "reinforce"])
def test_a_loss_without_a_ratio_must_be_on_policy(tmp_path, loss_type):
    with pytest.raises(UserError, match="on_policy to true"):
        train(tmp_path, loss_type=loss_type, **AHEAD)
