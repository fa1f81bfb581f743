"""Planners may read in another dtype than they were trained with: their encoder counts as the same."""

import torch

from orchestai.planner.slots.encoders.encoder import MINILM, TextEncoder, open_encoder

TEXT = "Reverse the words, count the letters of each, and add the counts up."


def test_rounded_weights_are_still_those_that_a_planner_was_trained_with() -> None:
    """Its checkpoint was refused, as one that was trained on other weights."""
    exact, rounded = open_encoder(MINILM, 64, 3), TextEncoder(MINILM, 64, 3, dtype=torch.bfloat16)
    assert rounded.fingerprint == exact.fingerprint
    one, other = exact.encode(TEXT).features.float(), rounded.encode(TEXT).features.float()
    assert not torch.equal(one, other)
    assert torch.nn.functional.cosine_similarity(one, other, dim=-1).min() > 0.995
