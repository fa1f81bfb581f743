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
    with torch.no_grad():
        meanings: torch.Tensor = tuned([encoder.encode(text) for text in texts], torch.device("cpu"))
    return meanings


LONG = " ".join(f"Then count the words of list {number}." for number in range(120))


@pytest.mark.parametrize("training", [False, True])
def test_they_continue_where_the_encoder_stops(training: bool) -> None:
    """Without the special tokens that the layers were trained to look at, what they give is another (cosine .5)."""
    encoder = opened()
    tuned = TunedLayers(encoder)
    for layer in tuned.train(training).layers:
        layer.apply(lambda part: setattr(part, "p", 0.0) if isinstance(part, torch.nn.Dropout) else None)
    found = read(tuned, encoder, *TEXTS)
    for row, text in enumerate(TEXTS):
        wanted = encoder.encode(text).meanings.float()
        torch.testing.assert_close(found[row, : len(wanted)], wanted, atol=5e-3, rtol=5e-3)


def test_a_text_of_many_windows_is_read_as_one() -> None:
    encoder = TextEncoder(MINILM, 2048, 3)
    text = encoder.encode(LONG)
    assert len(text) > 900
    assert len(text.before) == len(text.after) == 1
    assert read(TunedLayers(encoder).eval(), encoder, LONG).shape == (1, len(text), 384)


def test_planners_of_earlier_versions_read_without_special_tokens() -> None:
    """They learned so; the part that they lack must not change their plans."""
    planner = PlannerModel(CONFIG, CARDS, opened())
    before = {name: value for name, value in planner.state_dict().items() if name != "reader.tuned.between"}
    assert planner.reader.tuned.between
    planner.load_state_dict(planner.added_since() | before)
    assert not planner.reader.tuned.between
    planner.load_state_dict(planner.added_since() | PlannerModel(CONFIG, CARDS, opened()).state_dict())
    assert planner.reader.tuned.between


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
