"""The file of rollouts says of every turn what it was, what it was credited with, and how much of it is learned."""

import asyncio
import json
import math

import pytest
import torch

from orchestai.planner.slots.decisions import SlotLayout
from orchestai.training.rl.advantages import Credited
from orchestai.training.rl.monitoring import ROLLOUTS, decision_credits
from orchestai.types import Decisions, Turn
from support.agents import sample as agents_sample
from support.training import bandit


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
            assert "decisions" not in turn
        else:
            assert turn["decisions"] == [[turn["slots"], "tokens", turn["advantage"]]]
            assert 1 <= turn["slots"] <= bandit.Speller.LONGEST
            assert turn["advantage"] == pytest.approx(sample["reward"] - mean, abs=1e-5)


def test_decisions_of_a_plan_by_slots_are_named():
    layout = SlotLayout(max_subtasks=2, max_fallbacks=1)
    nothing = torch.zeros(layout.slots)
    none = torch.zeros(1, dtype=torch.int64)
    chosen = Decisions(1, torch.zeros(1, 2), none, none, torch.zeros(1, 1), torch.zeros(1, 1, dtype=torch.bool))
    turn = Turn(chosen, nothing, nothing == 0, nothing, layout.step, 0)
    places = torch.tensor([layout.slot(0, 4), layout.slot(0, 5), layout.slot(1, 4), layout.slots - 1])
    credit = Credited(places, torch.tensor([0.5, -0.25, 1.0, 2.0]))
    assert decision_credits(turn, credit) == [
        (1, "worker", 0.5),
        (1, "fallback", -0.25),
        (2, "worker", 1.0),
        (0, "edge", 2.0),
    ]
    assert (credit.slots, credit.advantage) == (4, 0.8125)


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


def test_parts_of_a_transcript_have_their_lengths(tmp_path):
    """What a model writes may look like the beginning of a part, so these cannot be told from the text alone."""
    agents_sample.trainer(tmp_path, agents_sample.settings(phase2={"num_episodes": 4})).train()
    for sample in written(tmp_path):
        at, said = 0, sample["transcript"]
        for role, speaker, length in sample["speeches"]:
            beginning = f"[{role}] {speaker}: "
            assert said.startswith(beginning, at)
            at += len(beginning) + length + len("\n\n")
        assert at == len(said) + len("\n\n")
