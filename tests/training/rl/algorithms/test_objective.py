"""The loss of a step, put together, against figures worked by hand."""

import math

import pytest
import torch
from torch import nn

from orchestai.config import Phase2Config
from orchestai.training.rl.algorithms.importance import effective_share
from orchestai.training.rl.algorithms.objective import METRICS, Objective
from orchestai.training.rl.algorithms.recipes import PPO, RECIPES
from orchestai.training.rl.batch import Batch
from orchestai.types import Scores, TokenDecisions
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
