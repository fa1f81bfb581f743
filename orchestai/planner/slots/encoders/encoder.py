"""The pretrained text encoder that instructions and worker cards are read with."""

from __future__ import annotations

import hashlib
import math
import threading
from collections import OrderedDict
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, TypeAlias, cast

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

from orchestai.planner.base_files import OnnxGraph, read_weights
from orchestai.threads import usable_cores

MINILM_FOLDER = Path(__file__).parents[2] / "shipped" / "minilm"
_POSITIONS = 512
"""Most tokens at once, special ones included."""
_LAYERS = ("layer_0", "layer_3", "layer_6")
"""The embeddings, the layer that tells most of words and their places, and the last, made to be compared."""
_ROOM = 1 << 30

Floats: TypeAlias = "NDArray[np.floating[Any]]"


@dataclass(frozen=True, eq=False)
class EncodedText:
    """Features of one text.

    Attributes:
        text: itself.
        features: (t, width) float16; one row per token, special tokens left out: the chosen layer's output, then the
            embedding.
        offsets: (t, 2) int64; [start, end) character offsets of each token.
        ids: (t,) int64; the tokens in the encoder's vocabulary.
        meanings: (t, width / 2) float16; the last layer's output, which was trained to be compared.
    """

    text: str
    features: NDArray[np.float16]
    offsets: NDArray[np.int64]
    ids: NDArray[np.int64]
    meanings: NDArray[np.float16]

    def __len__(self) -> int:
        return len(self.offsets)

    @property
    def nbytes(self) -> int:
        """Bytes of features and meanings."""
        return self.features.nbytes + self.meanings.nbytes

    @property
    def hidden(self) -> NDArray[np.float16]:
        """(t, width / 2) the chosen layer's output alone."""
        return self.features[:, : self.features.shape[1] // 2]


class UnreadableTextError(ValueError):
    """A text that the encoder cannot take whole; the message says why."""


class TextEncoder:
    """The shipped encoder, all-MiniLM-L6-v2 with weights in int8 (`scripts/export_onnx.py`), which is frozen.

    It is no module of the planner: its weights are neither trained nor stored with the planner's. Texts are encoded one
    at a time, so that a text's features never depend on what it was batched with. One that is longer than the encoder
    takes at once is read in windows that overlap by a third. The latest are kept in memory.

    Args:
        max_tokens: longest text, special tokens included; it may be more than the encoder takes at once.

    Attributes:
        fingerprint: sha256 of the weights, as 16 hexadecimal digits.
        width: of the features.
        room: bytes of features that are kept; 1 GiB, some 3,000 instructions. Whoever goes through more texts again
            and again, in random order, has most of them read anew.
    """

    name = "minilm"
    width = 2 * 384

    def __init__(self, max_tokens: int) -> None:
        self.max_tokens = max_tokens
        self._tokenizer, self._graph, self.fingerprint = _open_minilm()
        self._window = _POSITIONS - self._tokenizer.num_special_tokens_to_add(False)
        self.room = _ROOM
        self._cache: OrderedDict[str, EncodedText] = OrderedDict()
        self._cached_bytes = 0
        self._keeping = threading.Lock()

    def encode(self, text: str) -> EncodedText:
        """The text's token features.

        Raises:
            UnreadableTextError: the text is empty or too long, or holds half of a surrogate pair.
        """
        if (known := self._cache.get(text)) is not None:
            return self._keep(known)
        return self._keep(self._encode(text))

    def encode_all(self, texts: Sequence[str], *, keep: bool = True) -> list[EncodedText | UnreadableTextError]:
        """`encode` each text, as many at a time as there are cores; a text that cannot be taken gives its error.

        Threads that read a text each never wait for one another, unlike those that share one text.

        Args:
            keep: texts in memory, for whoever reads them again.
        """
        read: dict[str, EncodedText | UnreadableTextError] = {
            text: known for text in texts if (known := self._cache.get(text)) is not None
        }
        missing = [text for text in dict.fromkeys(texts) if text not in read]
        if len(missing) < 2:
            read |= {text: self._try_to_encode(text) for text in missing}
        else:
            with ThreadPoolExecutor(usable_cores()) as readers:
                read |= zip(missing, readers.map(self._try_to_encode, missing), strict=True)
        for text in dict.fromkeys(texts) if keep else ():
            if isinstance(encoded := read[text], EncodedText):
                self._keep(encoded)
        return [read[text] for text in texts]

    def encode_each(self, texts: Sequence[str]) -> list[EncodedText]:
        """`encode_all` of texts that can all be taken.

        Raises:
            UnreadableTextError: one cannot.
        """
        read = self.encode_all(texts)
        for text in read:
            if isinstance(text, UnreadableTextError):
                raise text
        return cast("list[EncodedText]", read)

    def _try_to_encode(self, text: str) -> EncodedText | UnreadableTextError:
        try:
            return self._encode(text)
        except UnreadableTextError as error:
            return error

    def _keep(self, encoded: EncodedText) -> EncodedText:
        with self._keeping:
            if encoded.text not in self._cache:
                self._cached_bytes += encoded.nbytes
                self._cache[encoded.text] = encoded
            self._cache.move_to_end(encoded.text)
            while self._cached_bytes > self.room and len(self._cache) > 1:
                self._cached_bytes -= self._cache.popitem(last=False)[1].nbytes
        return encoded

    def offsets(self, text: str) -> NDArray[np.int64]:
        """(t, 2) [start, end) character offsets of the text's tokens, without reading it."""
        if (known := self._cache.get(text)) is not None:
            return known.offsets
        return np.array(self._tokenizer.encode(text, add_special_tokens=False).offsets, np.int64).reshape(-1, 2)

    def token_ids(self, text: str) -> list[int]:
        """The text's tokens, without special ones."""
        return list(self._tokenizer.encode(text, add_special_tokens=False).ids)

    def embed(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(texts, width) unit vectors: mean token features."""
        return _unit_means([read.features for read in self.encode_each(texts)], self.width)

    def sentences(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """(texts, width / 2) unit vectors: means of the last layer over the tokens, made to be compared.

        Raises:
            UnreadableTextError: as `encode`.
        """
        return _unit_means([read.meanings for read in self.encode_each(texts)], self.width // 2)

    def _encode(self, text: str) -> EncodedText:
        if any("\ud800" <= character <= "\udfff" for character in text):
            raise UnreadableTextError("the text has half of a surrogate pair, which is no character")
        tokens = self._tokenizer.encode(text)
        ids = tokens.ids
        if len(ids) > self.max_tokens:
            raise UnreadableTextError(f"the text has {len(ids)} tokens, but planner.max_tokens is {self.max_tokens}")
        real = [i for i, special in enumerate(tokens.special_tokens_mask) if not special]
        if not real:
            raise UnreadableTextError("the text is empty")
        embedded, hidden, last = (
            layer[[i - real[0] for i in real]].astype(np.float16) for layer in self._read(ids, real[0], real[-1] + 1)
        )
        offsets = np.array([tokens.offsets[i] for i in real], np.int64)
        return EncodedText(text, np.concatenate([hidden, embedded], -1), offsets, np.array(ids, np.int64)[real], last)

    def _read(self, ids: list[int], first: int, end: int) -> list[NDArray[np.float32]]:
        """The (end - first, width / 2) output of each layer that is wanted, for these tokens."""
        before, text, after = ids[:first], ids[first:end], ids[end:]
        size = min(len(text), self._window)
        starts, cuts = _windows(len(text), size)
        rows = np.array([[*before, *text[a : a + size], *after] for a in starts], np.int64)
        parts = [slice(first + a - s, first + b - s) for s, (a, b) in zip(starts, pairwise(cuts), strict=True)]
        read = self._graph.run({"ids": rows}, _LAYERS)
        return [np.concatenate([read[layer][row, part] for row, part in enumerate(parts)]) for layer in _LAYERS]

    def __deepcopy__(self, memo: dict[int, object]) -> TextEncoder:
        """Itself: copies of a planner share the encoder, which never changes, and its cache."""
        return self


@cache
def _open_minilm() -> tuple[Tokenizer, OnnxGraph, str]:
    """Its tokenizer, its graph, and the sha256 of its weights as 16 hexadecimal digits."""
    weights = MINILM_FOLDER / "weights.safetensors"
    tokenizer = Tokenizer.from_file(str(MINILM_FOLDER / "tokenizer.json"))
    graph = OnnxGraph(MINILM_FOLDER / "graph.onnx", read_weights(weights))
    return tokenizer, graph, hashlib.sha256(weights.read_bytes()).hexdigest()[:16]


@cache
def open_encoder(max_tokens: int) -> TextEncoder:
    """The process's encoder of texts up to that length: whoever plans with it shares the texts it has read."""
    return TextEncoder(max_tokens)


def _unit_means(texts: Sequence[Floats], width: int) -> NDArray[np.float32]:
    """(texts, width) means over the tokens of (t, width) features, scaled to length 1."""
    if not texts:
        return np.zeros((0, width), np.float32)
    means = np.stack([text.mean(0, dtype=np.float32) for text in texts])
    return means / np.linalg.norm(means, axis=-1, keepdims=True).clip(1e-12)


def _windows(length: int, size: int) -> tuple[list[int], list[int]]:
    """Where windows of a text begin that overlap by at least a third, and where the part of each begins and ends.

    All are of one size, and the parts meet in the middle of what two windows share.
    """
    further = math.ceil((length - size) / (2 * size // 3)) if length > size else 0
    starts = [(length - size) * i // max(further, 1) for i in range(further + 1)]
    meet = [(start + size + following) // 2 for start, following in pairwise(starts)]
    return starts, [0, *meet, length]
