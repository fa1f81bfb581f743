"""Sentence embeddings, by which texts are compared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, TypeAlias

import numpy as np
from numpy.typing import NDArray

from orchestai.planner.slots.encoders.encoder import TextEncoder, UnreadableTextError

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
