"""A policy that learns its tasks by heart is found by the gap between training and validation, and chance is not."""

import asyncio

import pytest

from orchestai.execution.result import JudgedExecution
from orchestai.outcome import Reward, Scored, Unscorable
from orchestai.training.rl.monitoring.generalization_gap import growth, measure_gaps, note_attempts
from orchestai.training.rl.monitoring.training_state import Position
from orchestai.types import Episode
from support.training import bandit


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


def run(output, *, heart: bool, **changes):
    """Training on half the tasks; if learned by heart, validation is worth nothing whatever is planned."""
    learned = {task.task_id for task in bandit.TASKS[:12]}

    async def execute(task, workflow, sample=0) -> JudgedExecution:
        found = await bandit.execute(task, workflow, sample)
        lost = heart and task.task_id not in learned
        return found.model_copy(update={"outcome": Scored(0.0), "tests_passed": 0}) if lost else found

    config = bandit.settings(num_episodes=12 * 12, eval_every=4, learning_rate=0.3, **changes)
    tasks = {"tasks": bandit.TASKS[:12], "eval_tasks": bandit.TASKS[12:]}
    asyncio.run(bandit.trainer(output, config, execute=execute, **tasks).train())
    return bandit.rows(output, "eval_reward")


def test_a_run_reports_its_gaps_and_warns_of_what_is_learned_by_heart(tmp_path, capfd):
    rows = run(tmp_path / "heart", heart=True)
    assert "eval_gap_reward" not in rows[0], "nothing had been attempted"
    gaps = [row["eval_gap_success"] for row in rows[1:]]
    assert gaps[0] < gaps[-1]
    training = [row["success"] for row in bandit.rows(tmp_path / "heart")]
    assert gaps[-1] == pytest.approx(sum(training[-4:]) / 4 - rows[-1]["eval_success"])
    assert "learned by heart" in " ".join(capfd.readouterr().err.split())
    run(tmp_path / "well", heart=False)
    assert "learned by heart" not in " ".join(capfd.readouterr().err.split())
