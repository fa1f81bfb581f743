"""The encoder's upper layers begin as they were trained, learn in phase 1 alone, and read texts alike in any batch."""

from __future__ import annotations

import pytest
import torch
from transformers import AutoTokenizer, DistilBertConfig, DistilBertModel

from orchestai.config import PlannerConfig
from orchestai.errors import UserError
from orchestai.planner.slots.encoders.encoder import MINILM, TextEncoder, _minilm_path
from orchestai.planner.slots.model import PlannerModel
from orchestai.planner.slots.tuned_layers import TunedLayers
from orchestai.workers.base import WorkerCard

CONFIG = PlannerConfig(d_model=32, num_layers=1, max_subtasks=4, max_tokens=128, tune_encoder=True)
CARDS = [
    WorkerCard("greedy", "A small model, one answer.", 1e-5, "model"),
    WorkerCard("search", "Searches the standard library.", 1e-6, "tool"),
]
TEXTS = ["Reverse the words.", "Count the letters of each word, and add the counts up, then halve them.", "Sort."]


def opened(dtype: torch.dtype = torch.float32) -> TextEncoder:
    return TextEncoder(MINILM, 128, 3, dtype)


def read(tuned: TunedLayers, encoder: TextEncoder, *texts: str) -> torch.Tensor:
    hidden = [encoder.encode(text).hidden.float() for text in texts]
    mask = torch.nn.utils.rnn.pad_sequence([torch.ones(len(one), dtype=torch.bool) for one in hidden], True)
    with torch.no_grad():
        meanings: torch.Tensor = tuned(torch.nn.utils.rnn.pad_sequence(hidden, True), mask)
    return meanings


def test_they_continue_where_the_encoder_stops() -> None:
    encoder = opened()
    ids = encoder._tokenizer(TEXTS[1])["input_ids"]
    layers = encoder._read(ids, 0, len(ids))
    tuned = TunedLayers(encoder).eval()
    with torch.no_grad():
        found = tuned(layers[3][None], torch.ones(1, len(ids), dtype=torch.bool))
    torch.testing.assert_close(found[0], layers[-1], atol=1e-5, rtol=1e-5)


def test_what_phrases_mean_stays_as_the_encoder_was_trained() -> None:
    """Where it learned, too, a planner took one in ten of the named results for another; else one in thirty."""
    encoder = opened()
    planner, text = PlannerModel(CONFIG, CARDS, encoder).eval(), encoder.encode(TEXTS[1])
    before = planner.read([text])
    planner.train()
    with torch.no_grad():
        for parameter in planner.reader.tuned.parameters():
            parameter.mul_(1.1)
    planner.eval()
    after = planner.read([text])
    assert not torch.equal(after.tokens, before.tokens)
    assert torch.equal(after.meanings, before.meanings)
    assert torch.equal(after.meanings[0], text.meanings.float())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_a_text_is_read_alike_in_any_batch(dtype: torch.dtype) -> None:
    """Phase 2 scores in other batches than it samples in, and its ratios must begin at one."""
    encoder = opened(dtype)
    tuned = TunedLayers(encoder).eval()
    together = read(tuned, encoder, *TEXTS)
    for row, text in enumerate(TEXTS):
        alone = read(tuned, encoder, text)[0]
        assert torch.equal(together[row, : len(alone)], alone)


def test_what_is_learned_or_loaded_counts_at_the_next_reading() -> None:
    """They are rounded once; weights that changed meanwhile must not be read in their old state."""
    encoder = opened(torch.bfloat16)
    tuned = TunedLayers(encoder).eval()
    before, weights = read(tuned, encoder, TEXTS[0]), {k: v.clone() for k, v in tuned.state_dict().items()}
    tuned.train()
    with torch.no_grad():
        for parameter in tuned.parameters():
            parameter.mul_(1.1)
    tuned.eval()
    assert not torch.equal(read(tuned, encoder, TEXTS[0]), before)
    tuned.load_state_dict(weights)
    assert torch.equal(read(tuned, encoder, TEXTS[0]), before)
    tuned._apply(lambda weight: weight * 1.1)  # as `to` another device does
    assert not torch.equal(read(tuned, encoder, TEXTS[0]), before)


def test_phase_2_leaves_them_as_they_are() -> None:
    planner = PlannerModel(CONFIG, CARDS, opened())
    planner.learn_only(frozenset({"stop", "span", "edge", "worker"}))
    assert not any(parameter.requires_grad for parameter in planner.reader.tuned.parameters())
    assert all(parameter.requires_grad for parameter in planner.reader.project.parameters())


def test_layers_of_another_kind_of_encoder_are_refused(tmp_path) -> None:
    DistilBertModel(DistilBertConfig(dim=32, n_layers=4, n_heads=2, hidden_dim=32)).save_pretrained(tmp_path)
    AutoTokenizer.from_pretrained(str(_minilm_path())).save_pretrained(tmp_path)
    with pytest.raises(UserError, match=r"planner.tune_encoder.*distilbert.*set it to false"):
        TextEncoder(str(tmp_path), 64, 3).layers_above()


def test_above_the_last_layer_there_is_nothing_to_tune() -> None:
    with pytest.raises(UserError, match=r"planner.encoder_layer: 6 is the last of 'minilm'"):
        TextEncoder(MINILM, 64).layers_above()
