"""Phase 2 with preferences drawn per task: what is drawn, what it is worth, what is learned, and that a run goes on."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence

import pytest
import torch
from torch import nn

from orchestai.execution.reward import RelativeReward, reward_form
from orchestai.execution.reward_reference import Reference
from orchestai.outcome import Reward
from orchestai.planner.base import Preferences
from orchestai.preference import Preference
from orchestai.training.rl.rollouts.preferences import draw_preference
from orchestai.training.rl.rollouts.rollout import Rollout
from support.training import bandit

CHANGES = {"preference_share": 0.75, "eval_every": 2, "num_episodes": 24 * 3}


class Choosy(bandit.Bandit):
    """A bandit whose choices a preference shifts."""

    def __init__(self) -> None:
        super().__init__()
        self.shift = nn.Parameter(torch.zeros(2, bandit.KINDS, bandit.STEPS, bandit.WORKERS))

    def preferred(self, kinds: Sequence[int], preferences: Preferences) -> torch.Tensor:
        some = torch.tensor(kinds)
        known = torch.tensor([float(one is not None) for one in preferences])[:, None, None]
        price = torch.tensor([0.0 if one is None else 1 - one.shares[0] for one in preferences])[:, None, None]
        return self.logits[some] + known * self.shift[0, some] + price * self.shift[1, some]


async def execute(task, workflow, sample=0):
    """As the bandit's, where the right worker costs a dollar and a second, and the others nothing."""
    run = await bandit.execute(task, workflow, sample)
    return run.model_copy(update={"total_cost": float(run.tests_passed), "total_latency_ms": 1000.0 * run.tests_passed})


def train(output, *, resume=False, **changes):
    planner, config = Choosy(), bandit.settings(**CHANGES | changes)
    asyncio.run(bandit.trainer(output, config, planner, execute=execute).train(resume=resume))
    return planner


def test_draws_depend_on_their_key_alone_and_come_as_often_as_asked():
    drawn = [draw_preference(f"0/1/{i}", 0.6) for i in range(2000)]
    assert drawn == [draw_preference(f"0/1/{i}", 0.6) for i in range(2000)]
    some = [one for one in drawn if one is not None]
    assert len(some) / 2000 == pytest.approx(0.6, abs=0.04)
    assert sum(one.prefer for one in some) / len(some) == pytest.approx(0.5, abs=0.03)
    assert sum(one.time_share > 0 for one in some) / len(some) == pytest.approx(0.25, abs=0.04)
    assert draw_preference("any", 0.0) is None


async def test_a_group_has_one_preference_and_its_reward():
    config = bandit.settings(preference_share=0.75)
    reward = bandit.worth(config)
    rollout = Rollout(Choosy(), execute, reward, config, concurrency=8)
    groups = (await rollout.explore(bandit.TASKS, update=3)).groups
    assert [len({e.preference for e in group}) for group in groups] == [1] * len(groups)
    assert len({group[0].preference for group in groups}) > 10
    assert any(group[0].preference is None for group in groups)
    for group in groups:
        for episode in group:
            assert isinstance(episode.reward, Reward)
            assert episode.turns[0].decisions.preference == episode.preference
            if episode.preference is not None:
                right, cost, latency = episode.preference.shares
                costs = episode.metrics["cost_usd"]
                expected = right * episode.reward.parts["success"].value - (cost + latency) * costs
                assert episode.reward.total - episode.reward.contributions["reward_checks"] == pytest.approx(expected)
    alone = (await rollout.explore(bandit.TASKS[5:6], update=3)).groups[0]
    assert [e.reward.total for e in alone] == [e.reward.total for e in groups[5]]


def test_reward_at_a_preference_by_hand():
    """A typical cost twice over, half of a typical latency; a preference weighs them 3 to 2 beside half a success."""
    form = RelativeReward(10.0, "all", Reference(2.0, 300.0, "given"), 0.05, 0.02, 0.03)
    assert form.at(None) is form
    at = form.at(Preference(0.5, 0.4))
    assert at.cost(4.0) == pytest.approx(10 * 0.3 * 2)
    assert at.latency(150.0) == pytest.approx(10 * 0.2 * 0.5)
    assert (at.alpha, at.checks_part(1, 2).contribution) == pytest.approx((5.0, 0.5 * 0.5 * 0.3))
    free = RelativeReward(10.0, "all", Reference(0.0, 0.0, "free"), 0.05, 0.02, 0.03).at(Preference(0.1))
    assert (free.cost(1.0), free.latency(5.0)) == (0.0, 0.0)
    config = bandit.configuration(bandit.settings(beta=0.1))
    absolute = reward_form(config.rewards, config.training.phase2_rl, None)
    assert absolute is not None
    with pytest.raises(ValueError, match="no reference"):
        absolute.at(Preference(0.5))


def test_one_policy_learns_to_spend_as_is_preferred(tmp_path):
    planner = train(tmp_path, num_episodes=24 * 25, learning_rate=0.2, eval_every=100)
    found = {}
    for prefer in (0.1, 0.3, 0.7, 0.9):
        plans = planner.plan(bandit.TASKS, preferences=[Preference(prefer)] * len(bandit.TASKS))
        runs = [asyncio.run(execute(t, p.workflow)) for t, p in zip(bandit.TASKS, plans, strict=True)]
        found[prefer] = sum(run.total_cost for run in runs)
    assert list(found.values()) == sorted(found.values())
    assert found[0.1] < 0.2 * found[0.9]


def test_a_run_goes_on_bit_for_bit(tmp_path):
    whole = train(tmp_path / "whole")
    train(tmp_path / "cut", num_episodes=24)
    resumed = train(tmp_path / "cut", resume=True)
    one, other = ([bandit.timeless(row) for row in bandit.rows(tmp_path / name)] for name in ("whole", "cut"))
    assert one == other
    assert all(torch.equal(value, resumed.state_dict()[name]) for name, value in whole.state_dict().items())


def test_rollouts_say_what_was_preferred_and_evaluations_are_of_both(tmp_path):
    train(tmp_path)
    rows = [json.loads(line) for line in (tmp_path / "phase2_rollouts.jsonl").read_text().splitlines()]
    assert {"prefer" in row for row in rows} == {True, False}
    assert all(0 <= row["prefer"] <= 1 and 0 <= row["time_share"] <= 1 for row in rows if "prefer" in row)
    evaluations = bandit.rows(tmp_path, "eval_reward")
    assert all("eval_preferred_reward" in row for row in evaluations)
    plain = train(tmp_path / "plain", preference_share=0.0)
    assert not any("eval_preferred_reward" in row for row in bandit.rows(tmp_path / "plain", "eval_reward"))
    assert not plain.shift.any()
