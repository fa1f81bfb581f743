"""The loss of a step, put together, against figures worked by hand."""

from __future__ import annotations

import asyncio
import math
from dataclasses import replace

import pytest
import torch
from torch import nn

from orchestai.config import Phase2Config
from orchestai.outcome import Reward, Scored
from orchestai.training.rl.advantages import rank_invalid
from orchestai.training.rl.batch import Batch
from orchestai.training.rl.formulas import PPO, RECIPES, effective_share, weight_moments
from orchestai.training.rl.update import METRICS, Objective
from orchestai.types import Episode, Scores, TokenDecisions
from support.training import bandit


class Fixed(nn.Module):
    """Two rows, of two slots and of one."""

    max_slots = 2

    def __init__(self) -> None:
        super().__init__()
        self.logp = nn.Parameter(torch.tensor([[0.5, 0.2], [0.9, 0.0]]).clamp(min=0.01).log())
        self.value = nn.Parameter(torch.tensor([[1.0, 1.0], [0.0, 0.0]]))

    def score(self, tasks, decisions, *, explore, temperature) -> Scores:
        mask = torch.tensor([[True, True], [True, False]])
        return Scores(self.logp, torch.full((2, 2), 0.7), self.value, mask, torch.tensor([-1, -1]))

    def reference(self):
        return None


def two_rows(old, advantages, values=((0.0, 0.0), (0.0, 0.0)), returns=((0.0, 0.0), (0.0, 0.0))) -> Batch:
    return Batch(
        tasks=tuple(bandit.TASKS[:2]),
        decisions=(TokenDecisions(torch.zeros(1), torch.zeros(2)), TokenDecisions(torch.zeros(1), torch.zeros(1))),
        max_slots=2,
        logp=old,
        sampler_logp=old,
        mask=torch.tensor([[True, True], [True, False]]),
        values=torch.tensor(values),
        weights=torch.ones(2, 2),
        advantages=torch.tensor(advantages),
        returns=torch.tensor(returns),
        sequences=torch.tensor([0, 1]),
        lengths=torch.tensor([2.0, 1.0]),
    )


def test_ppo_by_hand():
    """Ratios 2 (clipped to 1.2, A = 1), 0.5 (clipped to 0.8, A = -2) and 1 (A = 3).

    Policy: -(1.2 - 2 * 0.8 + 3) / 3. Value: errors 0.5 held to 1.3 - 0.2 = 1.1 of return 2 (0.9), so 1 counts; 0.5;
    1. Halved squares: (1 + 0.25 + 1) / 2 / 3.
    """
    planner = Fixed()
    old = torch.tensor([[0.25, 0.4], [0.9, 1.0]]).log()
    batch = two_rows(
        old,
        values=[[1.3, 1.0], [0.0, 9.0]],
        advantages=[[1.0, -2.0], [3.0, 9.0]],
        returns=[[2.0, 0.5], [1.0, 9.0]],
    )
    config = Phase2Config(algorithm="PPO", value_coef=0.5, entropy_coef=0.1)
    part = Objective(planner, PPO, config)(batch, batch.counts())
    figures = dict(zip(METRICS, part.metrics.tolist(), strict=True))
    policy, value = -(1.2 - 2 * 0.8 + 3) / 3, (1 + 0.25 + 1) / 2 / 3
    assert figures["policy_loss"] == pytest.approx(policy)
    assert figures["value_loss"] == pytest.approx(value)
    assert part.loss.item() == pytest.approx(policy + 0.5 * value - 0.1 * 0.7)
    assert figures["clip_low_share"] == figures["clip_high_share"] == pytest.approx(1 / 3)
    assert figures["ratio"] == pytest.approx(3.5 / 3)
    assert figures["approximate_kl"] == pytest.approx(-math.log(2 * 0.5) / 3, abs=1e-6)
    assert part.max_ratio.item() == pytest.approx(2)
    assert effective_share(part.moments[0]) == pytest.approx(3.5**2 / (3 * (4 + 0.25 + 1)))
    assert effective_share(part.moments[1]) == pytest.approx(1), "the ratios of both rows multiply to 1"
    timid = Objective(planner, PPO, config)(replace(batch, boldness=0.5), batch.counts())
    assert timid.loss.item() == pytest.approx(part.loss.item() + 0.05 * 0.7)
    part.loss.backward()
    assert torch.allclose(planner.logp.grad, torch.tensor([[0, 0], [-1.0, 0]]))
    assert torch.allclose(planner.value.grad, torch.tensor([[-1.0, 0.5], [-1.0, 0]]) * 0.5 / 3)


def test_bounds_of_the_ratio_belong_to_the_recipe_until_they_are_set():
    """GSPO's are the paper's: 0.2 never clips a mean over a row. A set `epsilon` holds for both sides."""

    def bounds(kind, **changes):
        return RECIPES[kind].bounds_of(Phase2Config(loss_type=kind, **changes))

    assert bounds("grpo") == bounds("cispo") == (0.2, 0.2, 5.0)
    assert PPO.bounds_of(Phase2Config(algorithm="PPO")) == (0.2, 0.2, 5.0)
    assert bounds("gspo") == (3e-4, 4e-4, 5.0)
    assert bounds("gspo", epsilon=0.1) == (0.1, 0.1, 5.0)
    assert bounds("gspo", epsilon_high=0.1) == (3e-4, 0.1, 5.0)
    assert bounds("dapo", epsilon=0.1, epsilon_high=0.28) == (0.1, 0.28, 5.0)


def test_gspo_clips_what_moved_a_thousandth():
    """Two rows whose tokens all became exp(0.001) likelier: the better one is clipped, the worse one is not."""
    planner = Fixed()
    batch = two_rows(planner.logp.detach() - 1e-3, advantages=[[1.0, 1.0], [-1.0, 0.0]])
    config = Phase2Config(loss_type="gspo", entropy_coef=0.0)
    part = Objective(planner, RECIPES["gspo"], config)(batch, batch.counts())
    part.loss.backward()
    assert part.max_ratio.item() == pytest.approx(math.exp(1e-3))
    assert planner.logp.grad[0].tolist() == [0, 0]
    assert planner.logp.grad[1].tolist() == pytest.approx([math.exp(1e-3) / 2, 0])


# Effective sample sizes of importance weights, by hand and over a run.


def share(weights: list[list[float]], mask: torch.Tensor, level: str) -> float:
    return effective_share(weight_moments(torch.tensor(weights).log(), mask, level))


def test_effective_share_by_hand():
    """Slots 1, 2, 3: 36 / (3 * 14). Rows 1 * 2 and 3: 25 / (2 * 13). What does not exist has no part in it."""
    mask = torch.tensor([[True, True], [True, False], [False, False]])
    weights = [[1.0, 2.0], [3.0, 99.0], [7.0, math.nan]]
    assert share(weights, mask, "token") == pytest.approx(36 / 42)
    assert share(weights, mask, "sequence") == pytest.approx(25 / 26)
    assert share(weights, ~mask & False, "token") == 1.0


def test_equal_weights_are_all_effective_and_one_heavy_one_alone():
    mask = torch.ones(4, 8, dtype=torch.bool)
    assert share([[0.5] * 8] * 4, mask, "token") == pytest.approx(1)
    heavy = torch.zeros(4, 8)
    heavy[0] = 1000.0  # as a row's product: exp(8000)
    assert effective_share(weight_moments(heavy, mask, "sequence")) == pytest.approx(1 / 4)


def test_moments_of_parts_add_up():
    logs = torch.randn(6, 5, generator=torch.Generator().manual_seed(0))
    mask = torch.rand(6, 5, generator=torch.Generator().manual_seed(1)) < 0.7
    for level in ("token", "sequence"):
        parts = sum(weight_moments(logs[i : i + 2], mask[i : i + 2], level) for i in (0, 2, 4))
        torch.testing.assert_close(parts, weight_moments(logs, mask, level))


def test_a_run_tells_how_many_samples_are_left_when_the_policy_moves_away(tmp_path):
    """On policy all count; the more steps on one batch the fewer, and rows fewer than slots."""

    def ess(iterations: int) -> tuple[float, float]:
        config = bandit.settings(num_episodes=12, num_iterations=iterations, learning_rate=0.3, epsilon=10.0)
        output = tmp_path / str(iterations)
        asyncio.run(bandit.trainer(output, config, bandit.Speller()).train())
        (row,) = bandit.rows(output)
        return row["ess"], row["ess_sequence"]

    assert ess(1) == pytest.approx((1, 1))
    few, many = ess(2), ess(6)
    assert 1 > few[0] > many[0] > 0.1
    assert few[1] < few[0]
    assert many[1] < many[0]


# What a reward teaches over a whole run: a planner must not learn to write what cannot be executed, nor to be fast
# instead of right.


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
