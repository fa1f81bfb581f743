"""What phase 1 leaves to workers that it was not taught."""

from __future__ import annotations

import pytest
import torch

from orchestai.planner.slots.decisions import IMPOSSIBLE
from orchestai.planner.slots.losses import OTHERS, cross_entropy
from orchestai.planner.slots.targets import IGNORE


def test_phase_1_leaves_every_possible_worker_a_chance():
    """Taught one of four, of which one is impossible, it was as sure of it as training was long, and phase 2 never drew
    another."""
    logits = torch.zeros(2, 4, requires_grad=True)
    impossible = torch.tensor([False, False, False, True])
    for _ in range(2000):
        loss = cross_entropy(logits.masked_fill(impossible, IMPOSSIBLE), torch.tensor([0, IGNORE]), OTHERS)
        [gradient] = torch.autograd.grad(loss, logits)
        logits = (logits - gradient).detach().requires_grad_()
    odds = logits.masked_fill(impossible, IMPOSSIBLE).softmax(-1)
    share = OTHERS / 3
    assert odds[0].tolist() == pytest.approx([1 - 2 * share, share, share, 0.0], abs=1e-3)
    assert odds[1].tolist() == pytest.approx([1 / 3, 1 / 3, 1 / 3, 0.0]), "an unknown target teaches nothing"
