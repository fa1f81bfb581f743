"""The file of rollouts says of every turn what it was, what it was credited with, and how much of it is learned."""

import asyncio
import json
import math

import pytest

from orchestai.training.rl.monitoring.training_report import ROLLOUTS
from support import agents_sample, bandit


def written(folder) -> list[dict]:
    return [json.loads(line) for line in (folder / ROLLOUTS).read_text().splitlines()]


def test_a_plan_is_one_turn_with_its_advantage(tmp_path):
    """Rewards less their mean, as dr_grpo compares them; the first eight attempts are the first task's."""
    config = bandit.settings(num_episodes=24, loss_type="dr_grpo", mask_truncated=True)
    asyncio.run(bandit.trainer(tmp_path, config, bandit.Speller()).train())
    samples = [sample for sample in written(tmp_path) if sample["update"] == 1]
    assert len(samples) == 8
    mean = sum(sample["reward"] for sample in samples) / 8
    turns = [turn for sample in samples for turn in sample["turns"]]
    assert [turn["role"] for turn in turns] == ["planner"] * 8
    assert 0 < sum(turn["truncated"] for turn in turns) < 8
    for sample, turn in zip(samples, turns, strict=True):
        if turn["truncated"]:
            assert (turn["slots"], turn["advantage"]) == (0, None), "it is in no loss"
        else:
            assert 1 <= turn["slots"] <= bandit.Speller.LONGEST
            assert turn["advantage"] == pytest.approx(sample["reward"] - mean, abs=1e-5)


def test_turns_of_agents_have_their_words_rewards_and_advantages(tmp_path):
    config = agents_sample.settings(credit="turn", phase2={"loss_type": "dr_grpo", "num_episodes": 4})
    agents_sample.trainer(tmp_path, config).train()
    samples = written(tmp_path)
    assert len({sample["task_id"] for sample in samples}) == 2, "eight attempts, four at each task"
    for task in {sample["task_id"] for sample in samples}:
        mine = [sample for sample in samples if sample["task_id"] == task]
        roles = [[(turn["role"], turn["turn"]) for turn in sample["turns"]] for sample in mine]
        assert roles == [[("caller", 1), ("caller", 2), ("answerer", 1)]] * len(mine)
        for place in range(3):
            turns = [sample["turns"][place] for sample in mine]
            assert sum(turn["advantage"] for turn in turns) == pytest.approx(0, abs=1e-4)
            assert any(turn["advantage"] for turn in turns)
            for turn in turns:
                assert turn["reward"] == pytest.approx(agents_sample.plain(turn["text"]))
                assert 1 <= turn["slots"] <= 6
                assert math.isfinite(turn["advantage"])


def test_named_rewards_are_kept_with_their_weights(tmp_path):
    config = agents_sample.settings(reward_weights={"short": 0.25}, phase2={"num_episodes": 4})
    agents_sample.trainer(tmp_path, config, workflow_class=agents_sample.Graded).train()
    for sample in written(tmp_path):
        plain, short = sample["rewards"]["plain"], sample["rewards"]["short"]
        assert (plain["weight"], short["weight"]) == (1.0, 0.25)
        assert sample["reward"] == pytest.approx(plain["value"] + 0.25 * short["value"])
