"""An episode must not depend on the rest of its batch, and what went wrong outside must not look like a failed plan."""

import asyncio

import pytest
import torch

from orchestai.errors import InfrastructureError
from orchestai.execution.result import Attempt, JudgedExecution, SubtaskResult
from orchestai.execution.reward import REWARD_PARTS
from orchestai.outcome import Unscorable
from orchestai.planner.base import Plan
from orchestai.training.rl.monitoring import describe_episodes
from orchestai.training.rl.rollout import Rollout
from support.training import bandit


def rollout(execute=bandit.execute, planner=None, concurrency=4, **changes) -> Rollout:
    config = bandit.settings(**changes)
    return Rollout(
        planner or bandit.Bandit(),
        execute,
        bandit.worth(config),
        config,
        concurrency=concurrency,
    )


async def explore(runner: Rollout, tasks=bandit.TASKS):
    return (await runner.explore(tasks, update=3)).groups


async def test_a_sample_depends_on_its_seed_and_not_on_its_batch():
    """So a rank, a micro-batch size or a different neighbor changes nothing."""
    whole = await explore(rollout())
    alone = [group for task in bandit.TASKS for group in await explore(rollout(micro_batch_size=1), [task])]
    for group, other in zip(whole, alone, strict=True):
        assert [e.text for e in group] == [e.text for e in other]
        assert [e.outcome for e in group] == [e.outcome for e in other]
        assert all(torch.equal(a.turns[0].logp, b.turns[0].logp) for a, b in zip(group, other, strict=True))
    assert len({e.text for group in whole for e in group}) > 5


async def test_equal_plans_run_once_and_share_the_result():
    calls = []

    async def counting(task, workflow, sample=0) -> JudgedExecution:
        calls.append((task.task_id, workflow, sample))
        return await bandit.execute(task, workflow, sample)

    groups = await explore(rollout(counting))
    plans = {(e.task_id, e.text) for group in groups for e in group}
    assert len(calls) == len(set(calls)) == len(plans) < sum(map(len, groups))


async def test_what_is_nobodys_fault_is_unscorable_and_never_zero():
    async def down(task, workflow, sample=0) -> JudgedExecution:
        raise InfrastructureError("server", "server down")

    (group,) = await explore(rollout(down), bandit.TASKS[:1])
    assert {e.outcome for e in group} == {Unscorable("server", "server down")}


async def test_a_plan_that_is_invalid_or_too_long_is_worth_less_than_any_failure_and_is_counted():
    class Unable(bandit.Bandit):
        def plan(self, tasks, *, sample=None):
            plans = super().plan(tasks, sample=sample)
            return [Plan(None, False, plans[0].decisions, plans[0].logp, "no steps"), *plans[1:]]

    (group,) = await explore(rollout(planner=Unable(), max_steps_per_episode=2), [bandit.TASKS[2]])
    assert [e.outcome.value for e in group] == pytest.approx([-0.05 - 0.02 - 0.1] * 8)
    assert not any(e.valid for e in group)
    assert group[0].text == "no steps"
    assert all(e.turns for e in group)


async def test_the_logged_parts_add_up_to_the_logged_reward():
    """Over plans that are invalid, could not be judged, or cost something."""

    async def dear(task, workflow, sample=0) -> JudgedExecution:
        if task.task_id == "1":
            raise InfrastructureError("server", "server down")
        run = await bandit.execute(task, workflow, sample)
        return run.model_copy(update={"total_cost": 0.3, "total_latency_ms": 7.0 * len(workflow)})

    prices = {"beta": 0.5, "gamma_latency": 0.02}
    groups = await explore(rollout(dear, max_steps_per_episode=2, **prices))
    episodes = [episode for group in groups for episode in group]
    figures = describe_episodes(episodes)
    assert 0 < figures["valid_share"] < 1
    assert 0 < figures["unscorable_share"] < 1
    assert figures["reward_success"] > 0 > max(figures["reward_cost"], figures["reward_latency"])
    assert sum(figures[f"reward_{name}"] for name in REWARD_PARTS) == pytest.approx(figures["reward"])
    assert figures["reward_cost"] == pytest.approx(-0.5 * figures["cost_usd"])
    assert figures["reward_latency"] == pytest.approx(-0.02 * figures["latency_ms"])


async def test_planning_goes_on_while_earlier_plans_run_and_concurrency_is_bounded():
    running, most, planned_while_running = 0, 0, False

    class Watching(bandit.Bandit):
        def plan(self, tasks, *, sample=None):
            nonlocal planned_while_running
            planned_while_running |= running > 0
            return super().plan(tasks, sample=sample)

    async def slow(task, workflow, sample=0) -> JudgedExecution:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.01)
        running -= 1
        return await bandit.execute(task, workflow, sample)

    await explore(rollout(slow, Watching(), micro_batch_size=8))
    assert planned_while_running
    assert most == 4


async def test_an_error_of_the_users_code_leaves_nothing_running():
    cancelled = []

    async def failing(task, workflow, sample=0) -> JudgedExecution:
        if task.task_id == "1":
            raise ValueError("broken reward")
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            cancelled.append(task.task_id)
            raise
        raise AssertionError

    with pytest.raises(ValueError, match="broken reward"):
        await explore(rollout(failing, concurrency=16), bandit.TASKS[:2])
    assert cancelled
    assert len(asyncio.all_tasks()) == 1


async def test_steps_are_reported_with_what_they_earned_and_whether_they_failed():
    """A step that nobody answered has failed, as has one whose check was refused; one without a check has not."""
    refused = Attempt(worker="0", cost_usd=0.5, passed_check=False)
    results = (
        SubtaskResult(id="0", status="failed", attempts=(Attempt(worker="0", error="declined"),)),
        SubtaskResult(id="1", status="done", attempts=(refused,), kept=0),
        SubtaskResult(id="2", status="done", attempts=(Attempt(worker="0", passed_check=True),), kept=0),
        SubtaskResult(id="3", status="done", attempts=(Attempt(worker="0"),), kept=0),
    )

    async def execute(task, workflow, sample=0) -> JudgedExecution:
        return (await bandit.execute(task, workflow)).model_copy(update={"results": results, "total_cost": 0.5})

    steps = (await explore(rollout(execute, beta=2.0, shaped_reward=0.1)))[0][0].reward.steps
    assert [step.failed for step in steps] == [True, True, False, False]
    assert [step.earned for step in steps] == pytest.approx([0.0, -1.0, 0.1, 0.0])
