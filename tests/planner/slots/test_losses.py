"""What phase 1 leaves to workers that it was not taught."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

from orchestai.planner.slots.decisions import IMPOSSIBLE
from orchestai.planner.slots.layers import PhraseMatcher, first_accepted, phrase_norms
from orchestai.planner.slots.losses import IGNORE, OTHERS, PlannerOutputs, boundary_cross_entropy, cross_entropy


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


# In plans of any length, what stands far behind, and how much of it, changes nothing.


LOGITS = st.lists(st.floats(-20, 20), min_size=1, max_size=40).map(torch.tensor)


@given(LOGITS)
def test_a_token_is_first_if_it_is_accepted_and_none_before_it(logits: torch.Tensor) -> None:
    accepted = logits.double().sigmoid()
    wanted, left = [], torch.tensor(1.0, dtype=torch.double)
    for chance in accepted:
        wanted.append(left * chance)
        left = left * (1 - chance)
    torch.testing.assert_close(first_accepted(logits.double()).exp(), torch.stack(wanted), atol=1e-9, rtol=1e-6)


# Where words begin and end is learned from every token: the loss counts what is known, and nothing else.


OFFSETS = torch.tensor([[[0, 4], [5, 8], [9, 12], [13, 17], [0, 0]]])
"""Four tokens, and one of padding."""
STEPS = torch.tensor([[True, True]])
SPANS = torch.tensor([[[0, 8], [9, 12]]])
"""Tokens 0 to 1, and token 2."""


def loss(logits: Tensor, spans: Tensor) -> float:
    outputs = PlannerOutputs(boundaries=logits, token_offsets=OFFSETS)  # type: ignore[typeddict-item]
    return boundary_cross_entropy(outputs, spans, STEPS).item()


def certain() -> Tensor:
    logits = torch.full((1, 5, 2), -20.0)
    for token, side in ((0, 0), (1, 1), (2, 0), (2, 1)):
        logits[0, token, side] = 20.0
    return logits


def test_what_is_right_costs_nothing_and_each_wrong_token_its_own() -> None:
    assert loss(certain(), SPANS) == pytest.approx(0, abs=1e-6)
    wrong = certain()
    wrong[0, 3, 0] = 20.0
    assert loss(wrong, SPANS) == pytest.approx(20.0 / 2)


def test_padding_and_plans_with_a_step_of_unknown_place_teach_nothing() -> None:
    padding = certain()
    padding[0, 4] = 20.0
    assert loss(padding, SPANS) == pytest.approx(0, abs=1e-6)
    assert loss(-certain(), torch.tensor([[[0, 8], [IGNORE, IGNORE]]])) == 0


# Steps and the phrases that speak of them meet by meaning before anything is learned, and only where one may look.


WIDTH = 6
REVERSED, COUNTED, SORTED = F.one_hot(torch.tensor([0, 1, 2]), WIDTH).float()
SMALL_WORD = F.one_hot(torch.tensor(5), WIDTH).float()
MEANINGS = torch.stack([REVERSED, COUNTED, SMALL_WORD, REVERSED, SORTED])[None]
"""Two steps of a word each, then "the reversed", and the words of a third step."""
NORMS = phrase_norms(MEANINGS)
INSIDE = torch.eye(5, dtype=torch.bool)[[0, 1, 4]][None]
BEFORE = torch.tensor([[[0, 0, 0, 0, 0], [0, 0, 0, 0, 0], [0, 0, 1, 1, 0]]]).bool()
EXISTS = torch.ones(1, 3, dtype=torch.bool)


def fits(near: Tensor, *, exists: Tensor = EXISTS) -> Tensor:
    """(3, 3) cosines of single words: `fits` hands them through, unscaled."""
    matcher = PhraseMatcher(WIDTH, out=1, places=1)
    torch.nn.init.zeros_(matcher.fits.weight)
    matcher.fits.weight.data[0, 0] = 1 / 8
    return matcher(MEANINGS, NORMS, INSIDE, exists, [near])[0, ..., 0].detach()


def test_a_phrase_is_of_the_step_that_means_the_same_from_the_start() -> None:
    found = fits(BEFORE)[:, 2]
    assert found.argmax() == 0
    torch.testing.assert_close(found, torch.tensor([1.0, 0.0, 0.0]))


def test_a_phrase_counts_only_if_all_of_its_tokens_are_near() -> None:
    matcher = PhraseMatcher(WIDTH, out=1, places=1)
    torch.nn.init.zeros_(matcher.fits.weight)
    matcher.fits.weight.data[0, 2] = 1 / 8  # three tokens
    reaching = matcher(MEANINGS, NORMS, INSIDE, EXISTS, [BEFORE])[0, :, 2, 0]
    assert reaching.tolist() == [0.0] * 3, "two tokens are near"
    wider = torch.roll(BEFORE, -1, dims=-1) | BEFORE
    found = matcher(MEANINGS, NORMS, INSIDE, EXISTS, [wider])[0, :2, 2, 0]
    torch.testing.assert_close(found, torch.full((2,), 3**-0.5))
