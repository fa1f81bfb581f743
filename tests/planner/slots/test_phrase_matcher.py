"""Steps and the phrases that speak of them meet by meaning before anything is learned, and only where one may look."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional as F

from orchestai.planner.slots.reader import PhraseMatcher, phrase_norms

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


def test_the_lead_is_over_the_other_steps_at_the_same_phrase() -> None:
    """Where one phrase speaks of one step and the next of another, neither is the other's rival."""
    matcher = PhraseMatcher(WIDTH, out=1, places=1)
    torch.nn.init.zeros_(matcher.fits.weight)
    matcher.fits.weight.data[0, 4] = 1 / 8
    meanings = torch.stack([REVERSED, COUNTED, REVERSED, COUNTED, SORTED])[None]
    before = torch.tensor([[[0, 0, 0, 0, 0], [0, 0, 0, 0, 0], [0, 0, 1, 1, 0]]]).bool()
    leads = matcher(meanings, phrase_norms(meanings), INSIDE, EXISTS, [before])[0, :, 2, 0]
    torch.testing.assert_close(leads[:2], torch.ones(2))
    alike = meanings.clone()
    alike[0, 1] = REVERSED
    leads = matcher(alike, phrase_norms(alike), INSIDE, EXISTS, [before])[0, :, 2, 0]
    torch.testing.assert_close(leads[:2], torch.zeros(2))
