"""Sentence embeddings of whole queries, kept on disk for later runs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from orchestai.planner.slots.encoders.encoder import MINILM, open_encoder
from orchestai.planner.slots.encoders.sentences import EmbedSentences, sentence_embedder
from orchestai.storage.byte_store import ByteStore

_MAX_TOKENS = 512
_MAX_STORED_BYTES = 1 << 30


def query_features(texts: Sequence[str], cache_dir: Path) -> NDArray[np.float32]:
    """(queries, 384) unit vectors by MiniLM, as it was trained to be compared.

    Of a text beyond 512 tokens its end is read, where the question stands; one that has no token is a zero vector.

    Args:
        cache_dir: the vectors are kept in its folder `embeddings`, 1 GiB at most, by the encoder's weights and the
            text.
    """
    encoder = open_encoder(MINILM, _MAX_TOKENS)
    embed = sentence_embedder(encoder)
    store = ByteStore(cache_dir / "embeddings", _MAX_STORED_BYTES)
    features = np.zeros((len(texts), encoder.width // 2), dtype=np.float32)
    for row, text in enumerate(texts):
        key = f"{encoder.fingerprint} {text}"
        if (stored := store.load(key)) is None:
            stored = _embedded_end(text, embed).tobytes()
            store.save(key, stored)
        features[row] = np.frombuffer(stored, dtype=np.float32)
    return features


def _embedded_end(text: str, embed: EmbedSentences) -> NDArray[np.float32]:
    """The vector of the text, or of as much of its end as can be read."""
    while not (vector := embed([text])[0]).any() and text:
        text = text[1 + len(text) // 16 :]
    return vector
