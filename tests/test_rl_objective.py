"""The loss of a step, put together, against figures worked by hand."""

import math

import pytest
import rl_bandit as bandit
import torch
from torch import nn

from orchestai.config import Phase2Config
from orchestai.planner.base import Scores
from orchestai.planner.language.tokens import TokenDecisions
from orchestai.training.rl.batch import Batch
from orchestai.training.rl.objective import FIGURES, Objective
from orchestai.training.rl.recipes import PPO


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


def test_ppo_by_hand():
    """Ratios 2 (clipped to 1.2, A = 1), 0.5 (clipped to 0.8, A = -2) and 1 (A = 3).

    Policy: -(1.2 - 2 * 0.8 + 3) / 3. Value: errors 0.5 held to 1.3 - 0.2 = 1.1 of return 2 (0.9), so 1 counts; 0.5;
    1. Halved squares: (1 + 0.25 + 1) / 2 / 3.
    """
    planner = Fixed()
    old = torch.tensor([[0.25, 0.4], [0.9, 1.0]]).log()
    batch = Batch(
        tasks=tuple(bandit.TASKS[:2]),
        decisions=(TokenDecisions(torch.zeros(1), torch.zeros(2)), TokenDecisions(torch.zeros(1), torch.zeros(1))),
        max_slots=2,
        logp=old,
        mask=torch.tensor([[True, True], [True, False]]),
        values=torch.tensor([[1.3, 1.0], [0.0, 9.0]]),
        weights=torch.ones(2, 2),
        advantages=torch.tensor([[1.0, -2.0], [3.0, 9.0]]),
        returns=torch.tensor([[2.0, 0.5], [1.0, 9.0]]),
        sequences=torch.tensor([0, 1]),
        sequence_slots=torch.tensor([2.0, 1.0]),
        rollouts=torch.tensor([0, 1]),
        rollout_slots=torch.tensor([2.0, 1.0]),
    )
    config = Phase2Config(algorithm="PPO", value_coef=0.5, value_clip=0.2, entropy_coef=0.1)
    part = Objective(planner, PPO, config)(batch, batch.counts())
    figures = dict(zip(FIGURES, part.figures.tolist(), strict=True))
    policy, value = -(1.2 - 2 * 0.8 + 3) / 3, (1 + 0.25 + 1) / 2 / 3
    assert figures["policy_loss"] == pytest.approx(policy)
    assert figures["value_loss"] == pytest.approx(value)
    assert part.loss.item() == pytest.approx(policy + 0.5 * value - 0.1 * 0.7)
    assert figures["clip_low_share"] == figures["clip_high_share"] == pytest.approx(1 / 3)
    assert figures["ratio"] == pytest.approx(3.5 / 3)
    assert figures["approximate_kl"] == pytest.approx(-math.log(2 * 0.5) / 3, abs=1e-6)
    assert part.max_ratio.item() == pytest.approx(2)
    part.loss.backward()
    assert torch.allclose(planner.logp.grad, torch.tensor([[0, 0], [-1.0, 0]]))
    assert torch.allclose(planner.value.grad, torch.tensor([[-1.0, 0.5], [-1.0, 0]]) * 0.5 / 3)
