"""A step is credited with its own doing, and with the plan's success only where nobody else spoiled it."""

from __future__ import annotations

import pytest
import torch

from orchestai.config import Phase2Config
from orchestai.errors import UserError
from orchestai.outcome import Reward, RewardPart
from orchestai.training.rl.advantages import Learning, make_batch, plan_credit
from orchestai.training.rl.algorithms.credit import step_advantages
from orchestai.training.rl.algorithms.recipes import RECIPES
from orchestai.types import Episode, Trajectory
from support.agents.dialogues import TASKS, turn


def test_known_answers():
    """Four plans of two steps: of the first step's worker, only the plans whose second step passed tell anything."""
    own = torch.tensor([[-1.0, 0.0], [-3.0, 0.0], [-1.0, 0.0], [-3.0, -4.0]])
    failed = torch.tensor([[False, False], [True, False], [False, True], [False, True]])
    success = torch.tensor([10.0, 0.0, 0.0, 0.0])
    steps = torch.ones(4, 2, dtype=torch.bool)
    found = step_advantages(success + own.sum(1), own, failed, steps, torch.zeros(4, dtype=torch.long))
    # first step: own mean -2; success compared among plans 0 and 1. Second: own mean -1; among plans 0, 2 and 3.
    assert torch.allclose(found[:, 0], torch.tensor([1.0 + 5, -1.0 - 5, 1.0, -1.0]))
    assert torch.allclose(found[:, 1], torch.tensor([1.0 + 20 / 3, 1.0, 1.0 - 10 / 3, -3.0 - 10 / 3]))


def test_plans_that_differ_by_a_clock_alone_teach_nothing():
    """Eight that fail within milliseconds of each other got advantages of 1.5 where the deviation divided. What tells
    is a success, a check, or a cost of more than two hundredths of a success."""

    def learned(*plans: tuple[float, float, float]) -> Learning:
        names = {"success": 10.0, "cost": 0.5, "checks": 0.3}
        episodes = [
            Episode("t", "t", (Trajectory("a", "p", (turn([1], [5]),)),), Reward.of(parts))
            for plan in plans
            for parts in [{name: RewardPart(v, w) for v, (name, w) in zip(plan, names.items(), strict=True)}]
        ]
        config = Phase2Config(loss_type="dapo")
        return make_batch(episodes, TASKS, RECIPES["dapo"], config, 20, plan_credit(config))

    same = learned(*((0.0, -0.4 - number / 1000, 0.5) for number in range(8)))
    assert (same.flat_groups, same.worthwhile) == (1, False)
    telling = [((0.0, -0.4, 0.5), other) for other in ((1.0, -0.4, 0.5), (0.0, -0.4, 1.0), (0.0, -0.9, 0.5))]
    assert [learned(*pair).worthwhile for pair in telling] == [True] * 3
    assert Phase2Config().loss_type == "dr_grpo"


def test_groups_and_missing_steps_stay_apart():
    own = torch.tensor([[1.0, 9.0], [3.0, 9.0], [5.0, 2.0], [5.0, 4.0]])
    steps = torch.tensor([[True, False], [True, False], [True, True], [True, True]])
    found = step_advantages(
        (own * steps).sum(1), own, torch.zeros(4, 2, dtype=torch.bool), steps, torch.tensor([7, 7, 3, 3])
    )
    assert found.tolist() == [[-1, 0], [1, 0], [0, -1], [0, 1]]


def test_the_gradient_points_the_same_way_with_less_noise():
    """Two steps, two workers each, by Monte Carlo: per step, the mean gradient keeps its sign and noise shrinks."""
    generator = torch.Generator().manual_seed(0)
    groups, size = 4000, 8
    right = torch.tensor([[0.9, 0.5], [0.6, 0.3]])
    chosen = torch.randint(2, (groups * size, 2), generator=generator)
    passed = torch.rand(groups * size, 2, generator=generator) < torch.stack(
        [right[i, chosen[:, i]] for i in (0, 1)], 1
    )
    rewards = 10.0 * passed.all(1)
    ids = torch.arange(groups).repeat_interleave(size)
    nothing = torch.zeros(groups * size, 2)
    by_step = step_advantages(rewards, nothing, ~passed, torch.ones_like(passed), ids)
    by_plan = (rewards - rewards.view(groups, size).mean(1).repeat_interleave(size))[:, None]
    towards_first = 0.5 - chosen  # gradient of the log-probability, by the logit of worker 0
    for step in (0, 1):
        plan, own = (by_plan[:, 0] * towards_first[:, step], by_step[:, step] * towards_first[:, step])
        assert plan.mean() > 0
        assert own.mean() > 0
        assert own.mean() / own.std() > plan.mean() / plan.std()


@pytest.mark.parametrize("wrong", [{"loss_type": "dapo"}, {"algorithm": "PPO"}, {"explore": ("worker", "edge")}])
def test_what_cannot_be_credited_by_step_is_refused(wrong):
    settings = {"credit": "step", "loss_type": "dr_grpo", "explore": ("worker",), **wrong}
    with pytest.raises(UserError, match=r"training\.phase2_rl\.credit: step needs"):
        plan_credit(Phase2Config(**settings))
