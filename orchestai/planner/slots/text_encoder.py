"""The frozen encoder that texts are read with: its graph, its features of tokens, and sentences to be compared."""

from __future__ import annotations

import hashlib
import math
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, Final, TypeAlias, cast

import numpy as np
import onnxruntime
from numpy.typing import NDArray
from safetensors import deserialize
from tokenizers import Tokenizer

from orchestai.storage.byte_store import ByteStore
from orchestai.threads import usable_cores

_SCALE = ".scale"
_DTYPES = {"I8": np.int8, "I32": np.int32, "I64": np.int64, "BOOL": np.bool_, "F16": np.float16, "F32": np.float32}


class OnnxGraph:
    """A graph whose weights are not in its file.

    It computes on as many threads as `OMP_NUM_THREADS` says, by default on all cores; they sleep while they wait.

    Args:
        path: of the graph.
        weights: by the names that the graph has for them; all of them, and no others.
    """

    def __init__(self, path: Path, weights: Mapping[str, NDArray[Any]]) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = int(os.environ.get("OMP_NUM_THREADS", 0))
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")
        # Further optimizations take longer to make than they save, and slow MiniLM down.
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
        values = [onnxruntime.OrtValue.ortvalue_from_numpy(value) for value in weights.values()]
        options.add_external_initializers(list(weights), values)
        self._session = onnxruntime.InferenceSession(str(path), options, providers=["CPUExecutionProvider"])

        self._inputs = [given.name for given in self._session.get_inputs()]
        self._outputs = [made.name for made in self._session.get_outputs()]

    def run(self, inputs: Mapping[str, NDArray[Any]], outputs: Sequence[str] = ()) -> dict[str, NDArray[Any]]:
        """The outputs of these names, or all.

        Args:
            inputs: those of the graph, and maybe others, which it does not take.
        """
        wanted = list(outputs) or self._outputs
        return dict(zip(wanted, self._session.run(wanted, {name: inputs[name] for name in self._inputs}), strict=True))


def read_weights(path: Path) -> dict[str, NDArray[Any]]:
    """The arrays of a safetensors file; float32 where they are kept with fewer bits.

    A matrix (in, out) may be int8, with an array of its name and `.scale` of (in / k, out): what k numbers of a column
    are multiplied with.

    Raises:
        OSError, SafetensorError: it cannot be read.
    """
    found = {name: _array(**tensor) for name, tensor in deserialize(path.read_bytes())}
    for name in [name for name in found if name.removesuffix(_SCALE) in found.keys() - {name}]:
        scale, rounded = found.pop(name), found[name.removesuffix(_SCALE)]
        blocks = rounded.reshape(len(scale), -1, scale.shape[1]) * scale[:, None]
        found[name.removesuffix(_SCALE)] = blocks.reshape(rounded.shape)
    return found


def _array(dtype: str, shape: Sequence[int], data: bytearray) -> NDArray[Any]:
    if dtype == "BF16":
        return (np.frombuffer(data, np.uint16).astype(np.uint32) << 16).view(np.float32).reshape(shape)
    array: NDArray[Any] = np.frombuffer(data, _DTYPES[dtype]).reshape(shape)
    return array.astype(np.float32) if dtype == "F16" else array


MINILM_FOLDER = Path(__file__).parents[1] / "shipped" / "minilm"
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
        meanings: (t, width / 2) float16; the last layer's output, which was trained to be compared.
    """

    text: str
    features: NDArray[np.float16]
    offsets: NDArray[np.int64]
    meanings: NDArray[np.float16]

    def __len__(self) -> int:
        return len(self.offsets)

    @property
    def nbytes(self) -> int:
        """Bytes of features and meanings."""
        return self.features.nbytes + self.meanings.nbytes


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
        return EncodedText(text, np.concatenate([hidden, embedded], -1), offsets, last)

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


MAX_SENTENCE_TOKENS: Final = 512
"""Longest text whose meaning is told where workers are estimated."""
EmbedSentences: TypeAlias = Callable[[Sequence[str]], NDArray[np.float32]]
"""Sentences give (sentences, width) unit vectors, and 0 for one that says nothing or is too long."""


def sentence_embedder(encoder: TextEncoder) -> EmbedSentences:
    """Mean of the encoder's last layer over the tokens, as all-MiniLM-L6-v2 was trained to be compared."""

    def embed(sentences: Sequence[str]) -> NDArray[np.float32]:
        vectors = np.zeros((len(sentences), encoder.width // 2), np.float32)
        for i, sentence in enumerate(sentences):
            with suppress(UnreadableTextError):
                vectors[i] = encoder.sentences([sentence])[0]
        return vectors

    return embed


_MAX_STORED_BYTES = 1 << 30


def query_features(texts: Sequence[str], cache_dir: Path) -> NDArray[np.float32]:
    """(queries, 384) unit vectors by MiniLM, as it was trained to be compared.

    Of a text beyond 512 tokens its end is read, where the question stands; one that has no token is a zero vector.

    Args:
        cache_dir: the vectors are kept in its folder `embeddings`, 1 GiB at most, by the encoder's weights and the
            text.
    """
    encoder = open_encoder(MAX_SENTENCE_TOKENS)
    embed = sentence_embedder(encoder)
    store = ByteStore(cache_dir / "embeddings", _MAX_STORED_BYTES)
    features = np.zeros((len(texts), encoder.width // 2), dtype=np.float32)
    for row, text in enumerate(texts):
        key = f"{encoder.fingerprint} {text}"
        if (stored := store.load(key)) is None:
            while not (vector := embed([text])[0]).any() and text:  # as much of its end as can be read
                text = text[1 + len(text) // 16 :]
            stored = vector.tobytes()
            store.save(key, stored)
        features[row] = np.frombuffer(stored, dtype=np.float32)
    return features
