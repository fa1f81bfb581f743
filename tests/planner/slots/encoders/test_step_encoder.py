"""What a language model gives for steps is what it knows of them in the whole of the instruction."""

from __future__ import annotations

import itertools

import pytest
import torch
from transformers import AutoModel, AutoTokenizer

from orchestai.config import CACHE_DIR
from orchestai.lm import weights
from orchestai.planner.slots.encoders.step_encoder import StepEncoder

LAYER = 6
TEXT = "Make tea\nStep 1. Boil water\nStep 2. Take a cup"
SPANS = [(17, 27), (36, 46)]


@pytest.fixture(scope="module")
def reader() -> StepEncoder:
    return StepEncoder(weights.SMOLLM2, LAYER, CACHE_DIR)


def test_a_step_is_read_where_the_text_comes_again(reader):
    """Against the whole model's own outputs for the step's last token in the second reading, and for all of them."""
    path = weights.source(weights.SMOLLM2, CACHE_DIR, "here")
    tokenizer = AutoTokenizer.from_pretrained(path)
    model = AutoModel.from_pretrained(path, dtype=reader._model.dtype).eval()
    assert [TEXT[a:b] for a, b in SPANS] == ["Boil water", "Take a cup"]
    pieces = [tokenizer.encode(part) for part in (TEXT, "\n\n", TEXT[: SPANS[1][0] - 1], " Take a cup")]
    ids = [tokenizer.bos_token_id, *itertools.chain(*pieces)]
    assert tokenizer.decode(ids[-3:]) == " Take a cup"
    with torch.no_grad():
        hidden = model(torch.tensor([ids]), output_hidden_states=True).hidden_states[LAYER][0]
    found = reader.read(TEXT, SPANS)[1].float()
    wanted = torch.cat([hidden[-1], hidden[-3:].mean(0)]).float()
    assert torch.nn.functional.cosine_similarity(found, wanted, dim=0) > 0.999


def test_a_step_is_seen_with_those_behind_it(reader):
    """A causal model's first reading of step 1 cannot depend on step 2."""
    other = TEXT.replace("cup", "bus")
    first, second = (reader.read(text, SPANS)[0].float() for text in (TEXT, other))
    assert not torch.allclose(first, second, atol=1e-2)
