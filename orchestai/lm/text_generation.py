"""Continues prompts with text, up to a stop string, with any causal language model of transformers."""

from __future__ import annotations

import hashlib
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import torch
import transformers
from safetensors import SafetensorError
from safetensors.torch import load_file, save
from torch import Tensor
from transformers import DynamicCache, PreTrainedModel, PreTrainedTokenizerBase

from orchestai.errors import UserError
from orchestai.lm.loading import end_ids
from orchestai.lm.sampling import ActiveRow, decode, inverse_sample, step_randoms
from orchestai.storage import artifacts

KeyValues: TypeAlias = Sequence[tuple[Tensor, Tensor]]
"""Per layer: keys and values, each (batch, heads, tokens, head_dim)."""

_FEWEST_TOKENS = 256
_MOST_BYTES = 1 << 28
_FILES = 16
logger = logging.getLogger(__name__)


class PrefixStore:
    """A folder of files, one per beginning; the latest 16 are kept.

    A file is found again by the token ids, the model and the versions of what computes with it. Beginnings of fewer
    than 256 tokens are not worth a file, nor are those of models whose keys and values take more than 256 MiB, or that
    are computed on a GPU.

    Args:
        model: must not be trained while the store is in use.
    """

    def __init__(self, folder: Path, model: PreTrainedModel) -> None:
        self._folder = folder
        self._on_cpu = model.device.type == "cpu"
        self._model = _fingerprint(model) if self._on_cpu else ""

    def suits(self, ids: tuple[int, ...]) -> bool:
        """Whether it is for beginnings like this one."""
        return self._on_cpu and len(ids) >= _FEWEST_TOKENS

    def load(self, ids: tuple[int, ...]) -> KeyValues | None:
        """What was saved for these token ids; None where nothing was."""
        path = self._path(ids)
        try:
            tensors = load_file(path)
            return [(tensors[f"{layer}.keys"], tensors[f"{layer}.values"]) for layer in range(len(tensors) // 2)]
        except FileNotFoundError:
            return None
        except (OSError, SafetensorError, KeyError) as error:
            logger.warning("%s cannot be read (%s); it is made anew", path, error)
            return None

    def save(self, ids: tuple[int, ...], layers: KeyValues) -> None:
        """Keep what was computed for these token ids; where it cannot be written, that is said and nothing is lost."""
        if sum(keys.nbytes + values.nbytes for keys, values in layers) > _MOST_BYTES:
            return
        parts = {"keys": 0, "values": 1}
        tensors = {
            f"{layer}.{part}": states[place].contiguous()
            for layer, states in enumerate(layers)
            for part, place in parts.items()
        }
        try:
            artifacts.write_bytes(self._path(ids), save(tensors))
            for path in sorted(self._folder.glob("*.safetensors"), key=lambda path: path.stat().st_mtime)[:-_FILES]:
                path.unlink(missing_ok=True)
        except (UserError, OSError) as error:
            logger.warning("worked examples are read anew by every process: %s", error)

    def _path(self, ids: tuple[int, ...]) -> Path:
        return self._folder / f"{hashlib.sha256(f'{self._model} {ids}'.encode()).hexdigest()[:24]}.safetensors"


def _fingerprint(model: PreTrainedModel) -> str:
    """Of the model's configuration, a piece of each of its weights, and the versions of what computes with them."""
    digest = hashlib.sha256(f"{torch.__version__} {transformers.__version__} {model.config}".encode())
    for name, weight in model.state_dict().items():
        piece = weight.flatten()[:64].float()
        digest.update(f"{name} {weight.dtype} {tuple(weight.shape)} {piece.tolist()}".encode())
    return digest.hexdigest()


class PaddedCache:
    """What the model has read of each row (see `decoding.Cache`).

    Args:
        mask: (rows, tokens); 0 at pads.
    """

    def __init__(self, model: PreTrainedModel, cache: DynamicCache, mask: Tensor) -> None:
        self._model = model
        self._cache = cache
        self._mask = mask

    def keep(self, rows: Tensor) -> None:
        """Go on with these rows, by position; a row that is given several times is copied."""
        self._cache.batch_select_indices(rows)
        self._mask = self._mask[rows]

    def step(self, tokens: Tensor) -> Tensor:
        self._mask = torch.cat([self._mask, self._mask.new_ones(len(tokens), 1)], dim=1)
        # Per head and query, (rows, 1, 1, tokens): without a mask, PyTorch's grouped attention on CPUs is slower.
        return forward(self._model, tokens[:, None], self._mask, self._cache, self._mask[:, None, None, :].bool())


def forward(model: PreTrainedModel, ids: Tensor, mask: Tensor, cache: DynamicCache, attention: Tensor) -> Tensor:
    """Logits (batch, vocabulary) after the last of `ids` (batch, new); `mask` (batch, all tokens) is 0 at pads."""
    positions = (mask.cumsum(dim=1) - 1).clamp(min=0)[:, -ids.shape[1] :]
    output: Any = model(
        input_ids=ids,
        attention_mask=attention,
        position_ids=positions,
        past_key_values=cache,
        use_cache=True,
        logits_to_keep=1,
    )
    return output.logits[:, -1].float()


def common_start(sequences: Sequence[tuple[int, ...]]) -> int:
    """How many first elements all sequences share."""
    shortest, *others = sorted(sequences, key=len)
    return next((i for i, item in enumerate(shortest) if any(other[i] != item for other in others)), len(shortest))


class CancelledDecodingError(Exception):
    """Decoding was told to stop."""


@dataclass(frozen=True)
class Row:
    """One reply wanted: token ids of the prompt, and how to decode.

    Attributes:
        beginning: how many of the prompt's first tokens other prompts have, too (worked examples).
    """

    prompt: tuple[int, ...]
    temperature: float
    max_new_tokens: int
    stop: tuple[str, ...]
    seed: int
    beginning: int = 0


@dataclass(frozen=True)
class Reply:
    """`text` ends before the first stop string; `tokens` counts all generated; `elapsed_ms` since the batch began.

    `truncated`: the last token that it may have came before its end.
    """

    text: str
    tokens: int
    elapsed_ms: float
    truncated: bool


class Decoder:
    """Owns a model. Not thread-safe: one batch at a time.

    What all prompts of a batch begin with (worked examples) is read once, and kept for later batches.

    Args:
        kept_prefixes: most beginnings of prompts that are kept; the oldest goes first.
        store: where later processes find them; None keeps them in memory alone.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        kept_prefixes: int = 8,
        store: PrefixStore | None = None,
    ) -> None:
        self._model = model
        self._tokenizer = tokenizer
        self._kept = kept_prefixes
        self._store = store
        self._prefixes: OrderedDict[tuple[int, ...], KeyValues] = OrderedDict()
        self._end_ids = end_ids(model, tokenizer)

    @torch.inference_mode()
    def decode(
        self,
        rows: Sequence[Row],
        finished: Callable[[int, Reply], None],
        cancelled: Callable[[], bool] = lambda: False,
    ) -> None:
        """Decode all rows, calling `finished(index of the row, reply)` for each as soon as it is done.

        Args:
            rows: at least one; rows that begin alike are best decoded together.

        Raises:
            CancelledDecodingError: `cancelled` became true.
            torch.OutOfMemoryError: the batch is too large; rows reported as finished stay finished.
        """
        began = time.perf_counter()

        def pick(logits: Tensor, active: Sequence[ActiveRow]) -> Tensor:
            if cancelled():
                raise CancelledDecodingError
            return _pick(logits, active, rows)

        def remaining(active: Sequence[ActiveRow]) -> list[int]:
            return self._report(active, rows, began, finished)

        for beginning in {row.prompt[: row.beginning] for row in rows}:
            self._prepare(beginning)
        cache, logits = self._read([row.prompt for row in rows])
        active = [ActiveRow.seeded(i, row.max_new_tokens, row.seed) for i, row in enumerate(rows)]
        decode(cache, logits, active, pick, remaining)

    def forget(self) -> None:
        """Drop the kept beginnings (to free memory)."""
        self._prefixes.clear()

    def _read(self, prompts: Sequence[tuple[int, ...]]) -> tuple[PaddedCache, Tensor]:
        """The prompts' cache, and the logits (prompts, vocabulary) of what follows; equal prompts are read once."""
        distinct = list(dict.fromkeys(prompts))
        shared = min(common_start(distinct), min(map(len, distinct)) - 1)
        states = DynamicCache()
        for layer, (keys, values) in enumerate(self._prefix(distinct[0][:shared])):
            states.update(keys.expand(len(distinct), -1, -1, -1), values.expand(len(distinct), -1, -1, -1), layer)
        rests = [prompt[shared:] for prompt in distinct]
        width = max(map(len, rests))
        device = self._model.device
        ids = torch.tensor([[0] * (width - len(rest)) + list(rest) for rest in rests], device=device)
        mask = torch.tensor(
            [[1] * shared + [0] * (width - len(rest)) + [1] * len(rest) for rest in rests], device=device
        )
        logits = forward(self._model, ids, mask, states, mask)
        cache = PaddedCache(self._model, states, mask)
        if len(distinct) < len(prompts):
            rows = torch.tensor([distinct.index(prompt) for prompt in prompts], device=device)
            cache.keep(rows)
            logits = logits[rows]
        return cache, logits

    def _prepare(self, beginning: tuple[int, ...]) -> None:
        """Read what prompts to come begin with, or find it in the store."""
        if self._store is None or not self._store.suits(beginning):
            return
        if any(kept[: len(beginning)] == beginning for kept in self._prefixes):
            return
        known = self._store.load(beginning)
        if known is not None:
            self._keep(beginning, known)
        else:
            self._store.save(beginning, self._prefix(beginning))

    def _prefix(self, ids: tuple[int, ...]) -> KeyValues:
        """Keys and values of `ids`, computed from where the likest of the kept beginnings ends."""
        if not ids or ids in self._prefixes:
            return self._prefixes.get(ids, [])
        likest = max(self._prefixes, key=lambda kept: common_start((kept, ids)), default=())
        known = min(common_start((likest, ids)), len(ids) - 1)
        states = DynamicCache()
        for layer, (keys, values) in enumerate(self._prefixes[likest] if known else []):
            states.update(keys[:, :, :known], values[:, :, :known], layer)
        mask = torch.ones(1, len(ids), dtype=torch.long, device=self._model.device)
        forward(self._model, torch.tensor([ids[known:]], device=mask.device), mask, states, mask)
        layers: Any = states.layers
        return self._keep(ids, [(layer.keys, layer.values) for layer in layers])

    def _keep(self, ids: tuple[int, ...], states: KeyValues) -> KeyValues:
        self._prefixes[ids] = states
        if len(self._prefixes) > self._kept:
            self._prefixes.popitem(last=False)
        return states

    def _report(
        self, active: Sequence[ActiveRow], rows: Sequence[Row], began: float, finished: Callable[[int, Reply], None]
    ) -> list[int]:
        """Report the rows that ended with their newest token; the positions in `active` of the others."""
        texts = self._tokenizer.batch_decode([row.written for row in active], skip_special_tokens=True)
        staying = []
        for position, (row, text) in enumerate(zip(active, texts, strict=True)):
            stops = [place for stop in rows[row.index].stop if (place := text.find(stop)) >= 0]
            ended = bool(stops) or row.written[-1] in self._end_ids
            if ended or len(row.written) >= row.limit:
                elapsed_ms = (time.perf_counter() - began) * 1000
                finished(row.index, Reply(text[: min(stops, default=None)], len(row.written), elapsed_ms, not ended))
            else:
                staying.append(position)
        return staying


def _pick(logits: Tensor, active: Sequence[ActiveRow], rows: Sequence[Row]) -> Tensor:
    """The likeliest tokens, or at a temperature the inverse of the distributions at the rows' random numbers."""
    tokens = logits.argmax(dim=-1)
    sampled = [i for i, row in enumerate(active) if rows[row.index].temperature > 0]
    if sampled:
        drawn = [active[i] for i in sampled]
        # The same numbers in float32 first: what they choose is kept in recordings.
        temperatures = logits.new_tensor([rows[row.index].temperature for row in drawn]).double()
        randoms = step_randoms(drawn).to(logits).double()
        cumulated = torch.softmax(logits[sampled].double() / temperatures[:, None], dim=-1).cumsum(dim=-1)
        tokens[sampled] = inverse_sample(cumulated, randoms)
    return tokens
