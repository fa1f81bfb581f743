"""Planners may read in another dtype than they were trained with: their encoder counts as the same."""

import pytest
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


@pytest.mark.parametrize("layer", [1, 5])
def test_weights_of_any_layer_tell_encoders_apart(layer: int) -> None:
    """Phrases are compared in the last layer; a planner was loaded on an encoder with another one."""
    exact, other = open_encoder(MINILM, 64, 3), TextEncoder(MINILM, 64, 3)
    other._model.encoder.layer[layer].output.dense.weight.mul_(1.3)
    assert other.fingerprint != exact.fingerprint
