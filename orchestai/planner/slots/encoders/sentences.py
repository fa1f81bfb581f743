"""Sentence embeddings, by which texts are compared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from orchestai.planner.slots.encoders.encoder import TextEncoder, UnreadableTextError, open_encoder
from orchestai.storage.byte_store import ByteStore

MAX_SENTENCE_TOKENS: Final = 512
"""Longest text whose meaning is told where workers are estimated."""
EmbedSentences: TypeAlias = Callable[[Sequence[str]], NDArray[np.float32]]
"""Sentences give (sentences, width) unit vectors, and 0 for one that says nothing or is too long."""


def sentence_embedder(encoder: TextEncoder) -> EmbedSentences:
    """Mean of the encoder's last layer over the tokens, as all-MiniLM-L6-v2 was trained to be compared."""

    def embed(sentences: Sequence[str]) -> NDArray[np.float32]:
        return np.stack([vector(sentence) for sentence in sentences])

    def vector(sentence: str) -> NDArray[np.float32]:
        try:
            return encoder.sentences([sentence])[0]
        except UnreadableTextError:
            return np.zeros(encoder.width // 2, np.float32)

    return embed


_MAX_TOKENS = 512
_MAX_STORED_BYTES = 1 << 30


def query_features(texts: Sequence[str], cache_dir: Path) -> NDArray[np.float32]:
    """(queries, 384) unit vectors by MiniLM, as it was trained to be compared.

    Of a text beyond 512 tokens its end is read, where the question stands; one that has no token is a zero vector.

    Args:
        cache_dir: the vectors are kept in its folder `embeddings`, 1 GiB at most, by the encoder's weights and the
            text.
    """
    encoder = open_encoder(_MAX_TOKENS)
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
