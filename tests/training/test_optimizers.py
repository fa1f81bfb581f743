"""The optimizer does what its settings say, in 32 and in 8 bits, and goes on from its saved state bit for bit."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from accelerate import Accelerator
from torch import nn

from orchestai.config import AdamConfig, Phase2Config
from orchestai.errors import UserError
from orchestai.training.distributed import Fsdp2
from orchestai.training.learner import Learner
from orchestai.training.rl.trainer import rate_factor


class Distance(nn.Module):
    """Its loss is the distance of the weights from a goal, noisy as the seed says."""

    def __init__(self, weights: nn.Module) -> None:
        super().__init__()
        self.weights = weights

    def forward(self, seed: int) -> tuple[torch.Tensor]:
        generator = torch.Generator().manual_seed(seed)
        losses = [
            ((weight - 1 + torch.randn(weight.shape, generator=generator)) ** 2).sum()
            for weight in self.weights.parameters()
        ]
        return (torch.stack(losses).sum(),)


def learner(**settings: Any) -> Learner:
    torch.manual_seed(0)
    return Learner(Accelerator(cpu=True), nn.Linear(128, 64), Distance, AdamConfig(**settings))


def steps(learning: Learner, seeds: range) -> list[torch.Tensor]:
    for seed in seeds:
        learning.step([(seed,)])
    return [parameter.detach().clone() for parameter in learning.planner.parameters()]


def test_schedules_rise_for_the_updates_of_the_warm_up_and_fall_with_the_episodes_that_are_left():
    def rates(**settings: Any) -> list[float]:
        return [rate_factor(Phase2Config(**settings), update, update / 4) for update in range(5)]

    assert rates() == [1, 1, 1, 1, 1]
    assert rates(lr_schedule="linear") == pytest.approx([1, 0.75, 0.5, 0.25, 0])
    half = math.sqrt(0.5)
    assert rates(lr_schedule="cosine") == pytest.approx([1, (1 + half) / 2, 0.5, (1 - half) / 2, 0])
    assert rates(warmup_updates=4) == pytest.approx([0.25, 0.5, 0.75, 1, 1])
    assert rates(lr_schedule="linear", warmup_updates=2) == pytest.approx([0.5, 0.75, 0.5, 0.25, 0])


def test_first_steps_are_adams_with_the_decay_that_was_asked_for():
    """By hand, of two steps: m and v are sums of decayed gradients, corrected for having begun at 0."""
    rate, (first, second), decay = 1e-2, (0.9, 0.999), 0.1
    learning = learner(learning_rate=rate, weight_decay=decay, max_grad_norm=1e9)
    weight = next(learning.planner.parameters()).detach().clone().double()
    m = v = torch.zeros_like(weight)
    for step in (1, 2):
        noise = torch.randn(weight.shape, generator=torch.Generator().manual_seed(step))
        gradient = 2 * (weight - 1 + noise)
        m, v = first * m + (1 - first) * gradient, second * v + (1 - second) * gradient**2
        weight = weight * (1 - rate * decay)
        weight -= rate * (m / (1 - first**step)) / ((v / (1 - second**step)).sqrt() + 1e-8)
    assert torch.allclose(steps(learning, range(1, 3))[0].double(), weight, atol=1e-6)


def test_8_bits_hold_the_moments_in_a_quarter_of_the_memory_and_learn_almost_the_same():
    plain, small = learner(learning_rate=1e-2), learner(learning_rate=1e-2, optimizer="adamw_8bit")
    before = [parameter.detach().clone() for parameter in plain.planner.parameters()]
    for old, exact, coarse in zip(before, steps(plain, range(30)), steps(small, range(30)), strict=True):
        assert (coarse - exact).norm() < 0.1 * (exact - old).norm()

    def bytes_of(learning: Learner) -> int:
        moments = learning.state()["moments"]["weight"]
        return sum(moment.nbytes for name, moment in moments.items() if "qmap" not in name)  # one table for all

    assert bytes_of(small) < 0.27 * bytes_of(plain)


@pytest.mark.parametrize("optimizer", ["adamw", "adamw_8bit"])
def test_a_saved_state_goes_on_bit_for_bit(tmp_path: Path, optimizer: str):
    settings = {"learning_rate": 1e-2, "optimizer": optimizer, "weight_decay": 0.1}
    through = learner(**settings)
    whole = steps(through, range(8))
    stopped = learner(**settings)
    stopped.set_rates(0.5)
    torch.save(stopped.state(), tmp_path / "fresh")
    stopped.set_rates(1.0)
    steps(stopped, range(5))
    torch.save(stopped.state(), tmp_path / "state")
    resumed = learner(**settings)
    resumed.load_state(torch.load(tmp_path / "fresh", weights_only=True))
    assert resumed.optimizer.param_groups[0]["lr"] == 5e-3
    resumed.load_state(torch.load(tmp_path / "state", weights_only=True))
    for one, other in zip(whole, steps(resumed, range(5, 8)), strict=True):
        assert torch.equal(one, other)


def test_8_bits_are_refused_where_moments_are_split(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("orchestai.training.learner.layout_of", Fsdp2)
    with pytest.raises(UserError, match=r"optimizer=adamw_8bit.*ddp\.yaml"):
        learner(optimizer="adamw_8bit")
