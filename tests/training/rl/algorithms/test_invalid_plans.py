"""What a reward teaches over a whole run: a planner must not learn to write what cannot be executed, nor to be fast
instead of right."""

import asyncio

import pytest
import torch

from orchestai.outcome import Reward, Scored
from orchestai.training.rl.algorithms.invalid_plans import rank_invalid
from orchestai.types import Episode
from support.training import bandit

PRICE_USD, LATENCY_MS = 0.4, 900.0
"""Of one step."""


def costly(solvable: bool):
    """Workers that charge, and tasks that the right ones solve, or that nobody solves."""

    async def execute(task, workflow, sample=0):
        run = await bandit.execute(task, workflow, sample)
        spent = {"total_cost": PRICE_USD * len(workflow), "total_latency_ms": LATENCY_MS * len(workflow)}
        return run.model_copy(update=spent if solvable else {**spent, "outcome": Scored(0.0), "tests_passed": 0})

    return execute


@pytest.mark.parametrize("form", [{}, {"beta": 0.1, "gamma_latency": 1e-5}], ids=["relative", "absolute"])
@pytest.mark.parametrize("solvable", [True, False])
def test_a_planner_does_not_learn_to_write_invalid_plans(tmp_path, form, solvable):
    """An invalid plan was worth 0 and a valid failure less; where plans fail and cost, planners unlearned to plan."""
    torch.manual_seed(0)
    config = bandit.settings(learning_rate=0.3, num_episodes=24 * 8, eval_every=100, **form)
    reward = bandit.worth(config, success="all")
    trainer = bandit.trainer(tmp_path, config, bandit.Speller(), execute=costly(solvable), reward=reward)
    asyncio.run(trainer.train())
    shares = [row["valid_share"] for row in bandit.rows(tmp_path)]
    assert shares[0] < 0.9
    assert shares[-1] > 0.97


def test_in_the_absolute_form_the_worst_valid_plan_is_the_measure():
    """Its terms have no bound, so no constant is below all of them."""

    def episode(value: float, valid: bool) -> Episode:
        return Episode("t", "t", (), Reward(value), {"reward_invalid": 0.0}, valid=valid)

    ranked = rank_invalid([episode(-0.1, False), episode(-7.0, True), episode(0.9, True)], margin=0.1)
    assert [e.outcome.value for e in ranked] == pytest.approx([-7.1, -7.0, 0.9])
    assert ranked[0].metrics["reward_invalid"] == pytest.approx(-7.1)
    alone = rank_invalid([episode(-0.1, False), episode(-0.1, False)], margin=0.1)
    assert [e.outcome.value for e in alone] == [-0.1, -0.1], "a group without a valid plan stays flat"
