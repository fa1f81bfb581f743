"""The best checkpoint is one that a user would choose: more reward is not enough where success was given up for it."""

import asyncio

import pytest
import torch

from orchestai.outcome import Reward, Unscorable
from orchestai.training.rl.monitoring import ENOUGH, change, growth, judge, measure_gaps, note_attempts
from orchestai.training.rl.run_state import Position
from orchestai.training.rl.trainer import RunSummary
from orchestai.types import Episode
from support.training import bandit


def test_success_is_compared_task_by_task():
    """Of four tasks one is lost and one was not judged before: -1, 0, 0 have a standard error of a third."""
    before = {"a": 1.0, "b": 1.0, "c": 0.0}
    found = change({"a": 0.0, "b": 1.0, "c": 0.0, "d": 1.0}, before)
    assert (found.mean, found.error) == pytest.approx((-1 / 3, 1 / 3))
    assert str(found) == "-33.3 ± 33.3 points"
    assert change({}, before) is None


@pytest.mark.parametrize(
    ("lost", "won", "is_loss"), [(0, 0, False), (1, 0, False), (2, 0, True), (3, 2, False), (9, 3, True)]
)
def test_one_task_of_64_may_be_chance_and_two_may_not(lost, won, is_loss):
    """As many flips the other way make the same loss less telling."""
    before = {str(i): float(i % 2) for i in range(64)}
    flips = {str(2 * i + 1): 0.0 for i in range(lost)} | {str(2 * i): 1.0 for i in range(won)}
    assert change({**before, **flips}, before).is_loss == is_loss


@pytest.mark.parametrize(("tasks", "kept"), [(1, True), (2, True), (ENOUGH - 1, True), (ENOUGH, False)])
def test_of_few_tasks_no_loss_counts_as_chance(tasks, kept):
    """One pair has no standard error, so that any loss of success passed for the best."""
    solved = {str(i): 1.0 for i in range(tasks)}
    position = Position()
    judge(position, 0.5, solved)
    lost = judge(position, 0.9, {**solved, "0": 0.0})
    assert (lost.success_change.is_loss, lost.best) == (kept, not kept)
    assert bool(lost.passed_over) == kept
    assert judge(position, 0.95, solved).best


def test_more_reward_with_less_success_is_passed_over_and_that_is_said():
    solved = {str(i): 1.0 for i in range(8)}
    position = Position()
    assert judge(position, 0.5, solved).best
    position.update = 10
    assert judge(position, 0.6, solved).best
    position.update = 20
    worse = judge(position, 0.9, {**solved, "0": 0.0, "1": 0.0, "2": 0.0})
    assert not worse.best
    assert "0.900 is the highest so far" in worse.passed_over
    assert "-37.5 ± 18.3 points" in worse.passed_over
    assert "that of update 10" in worse.passed_over
    less = judge(position, 0.55, solved)
    assert (less.best, less.passed_over) == (False, "")
    assert str(RunSummary.of(position, "")) == "reward 0.600 (0.500 at the start), success 100.0% (100.0%)"


def greedy_for_speed(output, num_episodes, resume=False) -> RunSummary:
    """A planner that solves everything, under a reward that pays more for the fast worker that solves nothing."""

    async def execute(task, workflow, sample=0):
        run = await bandit.execute(task, workflow, sample)
        slow = sum(
            int(s.worker) == bandit.best_worker(bandit.kind_of(task), i) for i, s in enumerate(workflow.subtasks)
        )
        return run.model_copy(update={"total_latency_ms": 500.0 * slow})

    planner = bandit.Bandit()
    with torch.no_grad():
        for kind in range(bandit.KINDS):
            for step in range(bandit.STEPS):
                planner.logits[kind, step, bandit.best_worker(kind, step)] = 1.5
    config = bandit.settings(gamma_latency=0.01, num_episodes=num_episodes, eval_every=2, learning_rate=0.3)
    return asyncio.run(bandit.trainer(output, config, planner, execute=execute).train(resume=resume))


def test_a_planner_that_gives_success_away_is_not_kept(tmp_path, capsys):
    """A run went from 100 % success to 17 % and kept that as the best, which a resumed run went on with."""
    summary = greedy_for_speed(tmp_path, 24 * 2)
    summary = greedy_for_speed(tmp_path, 24 * 4, resume=True)
    rows = bandit.rows(tmp_path, "eval_success")
    assert rows[-1]["eval_reward"] > rows[0]["eval_reward"], "the reward asks for it"
    assert (rows[0]["eval_success"], rows[-1]["eval_success"]) == (1.0, 0.0)
    assert rows[-1]["eval_success_change"] == -1.0
    assert (summary.best_reward, summary.best_success) == (rows[0]["eval_reward"], 1.0)
    best, last = (torch.load(tmp_path / f"phase2_{name}.pth", weights_only=True) for name in ("best", "last"))
    assert not torch.equal(best["logits"], last["logits"])
    said = " ".join(capsys.readouterr().err.split())
    assert "is the highest so far, but success changed by -100.0 ± 0.0 points since the start" in said


# A policy that learns its tasks by heart is found by the gap between training and validation, and chance is not.


def attempts(*rewards: float, first: int = 0, success: bool = True) -> list[Episode]:
    """Two attempts at each task, half a point above and below its reward."""
    return [
        Episode(str(i), str(i), (), Reward(reward + half), metrics={"success": reward} if success else {})
        for i, reward in enumerate(rewards, start=first)
        for half in (-0.5, 0.5)
    ]


def test_the_gap_is_the_difference_of_means_over_tasks_since_the_last_evaluation():
    """By hand: tasks worth 1, 0 and 1 in two updates, against 1, 0, 0, 0; standard errors 1/3 and 1/4."""
    position = Position()
    note_attempts(position, attempts(1, 0))
    note_attempts(position, attempts(1, first=7))
    note_attempts(position, [Episode("9", "9", (), Unscorable("server", "down"))])
    gaps = measure_gaps(position, attempts(1, 0, 0, 0))
    assert gaps["success"].mean == pytest.approx(2 / 3 - 1 / 4)
    assert gaps["success"].error == pytest.approx((1 / 9 + 1 / 16) ** 0.5)
    assert gaps["reward"] == pytest.approx(gaps["success"]), "attempts at one task are one value"
    note_attempts(position, attempts(0, 0))
    assert measure_gaps(position, attempts(0, 0))["success"].mean == 0, "what was before is forgotten"
    assert measure_gaps(position, attempts(0, 0)) == {}, "nothing was attempted"


def warning(now: list[float], first: list[float], held_out: list[float], *, success: bool = True) -> str:
    position = Position()
    for rewards in (first, now):
        note_attempts(position, attempts(*rewards, success=success))
        gaps = measure_gaps(position, attempts(*held_out, success=success))
    return growth(position, gaps)


def test_growth_beyond_noise_is_said_and_nothing_else():
    half, all_right, few = [0, 1] * 20, [1.0] * 40, [0, 1] * 2
    assert "success on training tasks is 0.5 above" in warning(all_right, half, half)
    assert "reward on training tasks" in warning(all_right, half, half, success=False)
    assert warning(half, half, half) == ""
    assert warning([1, 1, 1, 1], few, few) == "", "four tasks may do that by chance"
    assert warning(all_right, all_right, half) == "", "it was so from the beginning"
    assert warning(half, [0] * 40, half) == "", "greedy attempts did better, and no longer do"
    position = Position()
    note_attempts(position, attempts(1))
    assert growth(position, measure_gaps(position, attempts(0))) == "", "one task has no error"
