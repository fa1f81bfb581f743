"""Learning from the slots of highest entropy alone: whichever they are, of the whole step, however it is computed."""

from __future__ import annotations

import asyncio

import pytest
import torch

from orchestai.training.rl.algorithms import formulas
from support.training import bandit


def speller(uncertain: int) -> bandit.Speller:
    """At one place every token is as likely as any; at the others one is far likelier, and seldom not taken."""
    policy = bandit.Speller()
    policy.base.data[..., 0] = 3.0
    policy.base.data[:, uncertain] = 0.0
    return policy


def train(output, policy: bandit.Speller, **changes) -> bandit.Speller:
    changes = {"num_episodes": 24, "loss_type": "dr_grpo", "learning_rate": 0.01} | changes
    asyncio.run(bandit.trainer(output, bandit.settings(**changes), policy).train())
    return policy


def test_high_entropy_by_hand():
    """Of four slots the upper half; equal ones at the threshold come in together; what does not exist never does."""
    entropy, mask = torch.tensor([[0.1, 0.9, 0.5], [9.0, 0.5, 0.2]]), torch.tensor([[True] * 3, [False, True, False]])
    assert formulas.high_entropy(entropy, mask, 0.3).tolist() == [[False, True, False], [False, False, False]]
    assert formulas.high_entropy(entropy, mask, 0.5).tolist() == [[False, True, True], [False, True, False]]
    assert torch.equal(formulas.high_entropy(entropy, mask, 1.0), mask)
    assert not formulas.high_entropy(entropy, mask & False, 0.5).any()


@pytest.mark.parametrize("place", [0, 1])
def test_only_the_uncertain_place_is_learned(tmp_path, place):
    """By default every place is."""
    everything = train(tmp_path / "all", speller(place)).adapter
    assert all(everything[:, i].any() for i in (0, 1))
    some = train(tmp_path / "some", speller(place), top_entropy_quantile=0.2).adapter
    assert some[:, place].any()
    assert not some[:, 1 - place].any()


@pytest.mark.parametrize("budget", [{"micro_batch_size": 3}, {"micro_batch_tokens": 10}])
def test_the_threshold_is_that_of_the_whole_step(tmp_path, budget):
    """Cut into passes, a step has the same slots; a threshold for each pass would learn from every pass alike."""
    changes = {"top_entropy_quantile": 0.3, "num_minibatches": 2, "num_iterations": 2, "kl_coef": 0.1}
    train(tmp_path / "whole", speller(1), micro_batch_size=1000, **changes)
    train(tmp_path / "cut", speller(1), **budget, **changes)
    for whole, cut in zip(bandit.rows(tmp_path / "whole"), bandit.rows(tmp_path / "cut"), strict=True):
        assert bandit.timeless(cut) == pytest.approx(bandit.timeless(whole), abs=1e-5)


def test_a_critic_learns_from_every_slot(tmp_path):
    policy = train(tmp_path, speller(0), algorithm="PPO", top_entropy_quantile=0.2)
    assert policy.values[:, 1].any()
    assert not policy.adapter[:, 1].any()
