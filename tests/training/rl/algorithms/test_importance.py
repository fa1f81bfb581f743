"""Effective sample sizes of importance weights, by hand and over a run."""

from __future__ import annotations

import asyncio
import math

import pytest
import torch

from orchestai.training.rl.algorithms.importance import effective_share, weight_moments
from support.training import bandit


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
