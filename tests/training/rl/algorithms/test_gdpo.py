"""GDPO over the rewards of plans: by hand, what may not change it, what it is with one reward, and what it learns."""

from __future__ import annotations

import asyncio
import random
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from orchestai.config import Phase2Config, RewardsConfig
from orchestai.errors import UserError
from orchestai.outcome import Reward, RewardPart
from orchestai.training.rl.advantages import Learning, make_batch, plan_credit
from orchestai.training.rl.algorithms.recipes import RECIPES
from orchestai.types import Episode, Trajectory
from support.agents.dialogues import TASKS, turn
from support.training import bandit

ONE_TURN = (Trajectory("a", "p", (turn([1, 2], [5]),)),)
ALPHA = 10.0
CONFIG = Phase2Config(alpha=ALPHA, loss_type="grpo")
GDPO = {"multi_objective_aggregation": "normalize_then_sum"}


def attempt(group: str = "t", valid: bool = True, **parts: tuple[float, float]) -> Episode:
    """Of parts by name: value, and weight in shares of a success."""
    named = {name: RewardPart(value, ALPHA * weight) for name, (value, weight) in parts.items()}
    return Episode("t", group, ONE_TURN, Reward.of(named), valid=valid)


def learned(episodes: list[Episode], **rewards) -> Learning:
    return make_batch(episodes, TASKS, RECIPES["grpo"], CONFIG, 20, plan_credit(CONFIG, RewardsConfig(**rewards)))


def test_by_hand():
    """Four plans: success 1 1 0 0, brevity 2 0 2 0 with half of the weight. Both have a mean and, with n - 1, a
    deviation such that their z-scores are +-z with z = sqrt(3) / 2. An invalid plan is worth 1 less than the worst."""
    plans = [attempt(success=(s, 1.0), brevity=(b, 0.5)) for s, b in ((1, 2), (1, 0), (0, 2), (0, 0))]
    assert plans[1].reward.total == plans[2].reward.total, "what GRPO cannot tell apart"
    z = 3**0.5 / 2
    expected = [1.5 * z, 0.5 * z, -0.5 * z, -1.5 * z]
    assert learned(plans, **GDPO, whiten_advantages=False).advantages.tolist() == pytest.approx(expected, abs=1e-3)
    deviation = (sum(value**2 for value in expected) / 3) ** 0.5
    whitened = [value / deviation for value in expected]
    assert learned(plans, **GDPO).advantages.tolist() == pytest.approx(whitened, abs=1e-3)
    found = learned([*plans, attempt(valid=False, success=(0, 1.0))], **GDPO, whiten_advantages=False).advantages
    lower = (1.5 * z + 1) / 5
    invalid = -1.5 * z - 1 + lower
    assert found.tolist() == pytest.approx([*(value + lower for value in expected), invalid], abs=1e-3)


def test_a_group_without_a_valid_plan_and_one_whose_plans_are_alike_teach_nothing():
    alike = [attempt("u", success=(1, 1.0), cost=(-0.5, 0.05)) for _ in range(3)]
    invalid = [attempt("v", valid=False, success=(0, 1.0)) for _ in range(3)]
    found = learned([*alike, *invalid], **GDPO)
    assert not found.worthwhile
    assert (found.groups, found.flat_groups) == (2, 2)


rows = st.lists(st.tuples(st.integers(0, 5), st.integers(0, 5), st.booleans()), min_size=2, max_size=8)
groups = st.lists(rows, min_size=1, max_size=3)


def batch(drawn, scale: float = 1.0, shift: float = 0.0) -> list[Episode]:
    return [
        attempt(str(number), valid, a=(a, 1.0), b=(scale * b + shift, 0.3))
        for number, group in enumerate(drawn)
        for a, b, valid in group
    ]


@settings(deadline=None)
@given(groups, st.floats(0, 4), st.floats(-5, 5), st.booleans())
def test_neither_the_scale_nor_the_zero_of_a_reward_changes_an_advantage(drawn, magnitude, shift, whiten):
    """But for the 1e-4 that deviations are raised by."""
    how = {**GDPO, "whiten_advantages": whiten}
    found = learned(batch(drawn, 10**magnitude, shift), **how).advantages
    assert found.tolist() == pytest.approx(learned(batch(drawn), **how).advantages.tolist(), abs=5e-3)


@settings(deadline=None)
@given(groups, st.randoms(use_true_random=False))
def test_the_order_of_the_plans_does_not_matter(drawn, chance):
    episodes = batch(drawn)
    order = list(range(len(episodes)))
    chance.shuffle(order)
    found = learned([episodes[i] for i in order], **GDPO).advantages
    assert found.tolist() == pytest.approx(learned(episodes, **GDPO).advantages[order].tolist(), abs=1e-5)


@settings(deadline=None)
@given(groups)
def test_with_one_reward_it_is_grpo(drawn):
    """Before it is whitened, which divides the whole batch by one number."""
    one = [replace(e, valid=True, reward=Reward.of({"a": e.reward.parts["a"]})) for e in batch(drawn)]
    grpo = learned(one).advantages
    assert learned(one, **GDPO, whiten_advantages=False).advantages.tolist() == pytest.approx(grpo.tolist(), abs=1e-3)
    whitened = learned(one, **GDPO).advantages
    if whitened.any():
        assert (whitened * grpo.norm()).tolist() == pytest.approx((grpo * whitened.norm()).tolist(), abs=1e-2)


@pytest.mark.parametrize("settings", [{"algorithm": "PPO"}, {"loss_type": "dr_grpo"}], ids=str)
def test_an_algorithm_without_deviations_of_groups_is_refused(tmp_path, settings):
    with pytest.raises(UserError, match=r"multi_objective_aggregation.*loss_type"):
        bandit.trainer(tmp_path, bandit.settings(**settings), rewards=GDPO)


@pytest.mark.parametrize(("rewards", "least", "most"), [({}, 0.0, 0.7), (GDPO, 0.9, 1.0)], ids=["GRPO", "GDPO"])
def test_a_reward_of_a_large_spread_hides_success_from_grpo_alone(tmp_path, rewards, least, most):
    """Somebody's reward is noise, in units so small that its figures are large, and weighs a twentieth."""

    async def execute(task, workflow, sample=0):
        run = await bandit.execute(task, workflow, sample)
        return run.model_copy(update={"rewards": {"noise": random.Random(repr(workflow)).uniform(-1000, 1000)}})

    torch.manual_seed(0)
    config, planner = bandit.settings(), bandit.Bandit()
    rewards = {"reward_weights": {"my_rewards:noise": 0.05}, **rewards}
    reward = bandit.worth(config, **rewards)
    asyncio.run(bandit.trainer(tmp_path, config, planner, execute=execute, reward=reward, rewards=rewards).train())
    assert least < planner.expected_reward() < most
    row = bandit.rows(tmp_path)[-1]
    parts = [row[f"reward_{name}"] for name in ("success", "cost", "latency", "checks", "invalid", "noise")]
    assert sum(parts) == pytest.approx(row["reward"])
