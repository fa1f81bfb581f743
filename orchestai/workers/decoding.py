"""Decodes a batch of prompts with a causal language model: one prefill, then a token per row and step.

Rows leave the batch as they finish, equal prompts are prefilled once, and so is what all prompts begin with (worked
examples), which is also kept for later batches. A row's random numbers come from its own seed, so its text does
not depend on its neighbors (up to rounding).
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache, PreTrainedModel, PreTrainedTokenizerBase

KeyValues = list[tuple[Tensor, Tensor]]
"""Per layer: keys and values, each (batch, heads, tokens, head_dim)."""


class CancelledDecodingError(Exception):
    """Decoding was told to stop."""


@dataclass(frozen=True)
class Row:
    """One reply wanted: token ids of the prompt, and how to decode."""

    prompt: tuple[int, ...]
    temperature: float
    max_new_tokens: int
    stop: tuple[str, ...]
    seed: int


@dataclass(frozen=True)
class Reply:
    """`text` ends before the first stop string; `tokens` counts all generated; `elapsed_ms` since the batch began."""

    text: str
    tokens: int
    elapsed_ms: float


@dataclass
class _State:
    """A row in progress: its place in the request, its random numbers in [0, 1) per step, and what it wrote."""

    index: int
    row: Row
    randoms: list[float]
    written: list[int] = field(default_factory=list)


class Decoder:
    """Owns a model. Not thread-safe: one batch at a time."""

    def __init__(self, model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase, kept_prefixes: int = 8) -> None:
        self._model = model
        self._tokenizer = tokenizer
        self._kept_prefixes = kept_prefixes
        self._prefixes: OrderedDict[tuple[int, ...], KeyValues] = OrderedDict()
        self._end_ids = _end_ids(model, tokenizer)

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
        prompts = list(dict.fromkeys(row.prompt for row in rows))
        cache, mask, logits = self._prefill(prompts)
        select = torch.tensor([prompts.index(row.prompt) for row in rows], device=mask.device)
        if len(prompts) < len(rows):
            cache.batch_select_indices(select)
            mask, logits = mask[select], logits[select]
        active = [_State(i, row, _randoms(row)) for i, row in enumerate(rows)]
        while True:
            if cancelled():
                raise CancelledDecodingError
            tokens = _choose(logits, active)
            for state, token in zip(active, tokens.tolist(), strict=True):
                state.written.append(token)
            staying = self._report(active, began, finished)
            if not staying:
                return
            if len(staying) < len(active):
                keep = torch.tensor(staying, device=mask.device)
                cache.batch_select_indices(keep)
                mask, tokens = mask[keep], tokens[keep]
                active = [active[i] for i in staying]
            mask = torch.cat([mask, mask.new_ones(len(active), 1)], dim=1)
            # Per head and query, (rows, 1, 1, tokens): without a mask, PyTorch's grouped attention on CPUs is slower.
            logits = self._forward(tokens[:, None], mask, cache, mask[:, None, None, :].bool())

    def forget(self) -> None:
        """Drop the kept prefixes (to free memory)."""
        self._prefixes.clear()

    def _prefill(self, prompts: Sequence[tuple[int, ...]]) -> tuple[DynamicCache, Tensor, Tensor]:
        """Cache, attention mask (prompts, tokens) and logits (prompts, vocabulary) of the last token; left-padded."""
        shared = min(_common_start(prompts), min(map(len, prompts)) - 1)
        cache = DynamicCache()
        for layer, (keys, values) in enumerate(self._prefix(prompts[0][:shared])):
            cache.update(keys.expand(len(prompts), -1, -1, -1), values.expand(len(prompts), -1, -1, -1), layer)
        rests = [prompt[shared:] for prompt in prompts]
        width = max(map(len, rests))
        device = self._model.device
        ids = torch.tensor([[0] * (width - len(rest)) + list(rest) for rest in rests], device=device)
        mask = torch.tensor(
            [[1] * shared + [0] * (width - len(rest)) + [1] * len(rest) for rest in rests], device=device
        )
        return cache, mask, self._forward(ids, mask, cache, mask)

    def _prefix(self, ids: tuple[int, ...]) -> KeyValues:
        """Keys and values of `ids`, computed from where the likest of the kept prefixes ends."""
        if not ids or ids in self._prefixes:
            return self._prefixes.get(ids, [])
        likest = max(self._prefixes, key=lambda kept: _common_start((kept, ids)), default=())
        known = min(_common_start((likest, ids)), len(ids) - 1)
        cache = DynamicCache()
        for layer, (keys, values) in enumerate(self._prefixes[likest] if known else []):
            cache.update(keys[:, :, :known], values[:, :, :known], layer)
        mask = torch.ones(1, len(ids), dtype=torch.long, device=self._model.device)
        self._forward(torch.tensor([ids[known:]], device=mask.device), mask, cache, mask)
        layers: Any = cache.layers
        self._prefixes[ids] = [(layer.keys, layer.values) for layer in layers]
        if len(self._prefixes) > self._kept_prefixes:
            self._prefixes.popitem(last=False)
        return self._prefixes[ids]

    def _forward(self, ids: Tensor, mask: Tensor, cache: DynamicCache, attention: Tensor) -> Tensor:
        """Logits (batch, vocabulary) after the last of `ids` (batch, new); `mask` (batch, all tokens) is 0 at pads."""
        positions = (mask.cumsum(dim=1) - 1).clamp(min=0)[:, -ids.shape[1] :]
        output: Any = self._model(
            input_ids=ids,
            attention_mask=attention,
            position_ids=positions,
            past_key_values=cache,
            use_cache=True,
            logits_to_keep=1,
        )
        return output.logits[:, -1].float()

    def _report(self, active: Sequence[_State], began: float, finished: Callable[[int, Reply], None]) -> list[int]:
        """Report the rows that ended with their newest token; the positions in `active` of the others."""
        texts = self._tokenizer.batch_decode([state.written for state in active], skip_special_tokens=True)
        staying = []
        for position, (state, text) in enumerate(zip(active, texts, strict=True)):
            found = [place for stop in state.row.stop if (place := text.find(stop)) >= 0]
            if found or state.written[-1] in self._end_ids or len(state.written) >= state.row.max_new_tokens:
                elapsed_ms = (time.perf_counter() - began) * 1000
                finished(state.index, Reply(text[: min(found, default=None)], len(state.written), elapsed_ms))
            else:
                staying.append(position)
        return staying


def _common_start(sequences: Sequence[tuple[int, ...]]) -> int:
    """How many first elements all sequences share."""
    shortest, *others = sorted(sequences, key=len)
    return next((i for i, item in enumerate(shortest) if any(other[i] != item for other in others)), len(shortest))


def _randoms(row: Row) -> list[float]:
    if row.temperature == 0:
        return []
    generator = torch.Generator().manual_seed(row.seed)
    return torch.rand(row.max_new_tokens, generator=generator, dtype=torch.float64).tolist()


def _choose(logits: Tensor, active: Sequence[_State]) -> Tensor:
    """Next token per row, (rows,): the likeliest, or the inverse of the distribution at the row's random number."""
    tokens = logits.argmax(dim=-1)
    sampled = [i for i, state in enumerate(active) if state.row.temperature > 0]
    if sampled:
        temperatures = [active[i].row.temperature for i in sampled]
        randoms = [active[i].randoms[len(active[i].written)] for i in sampled]
        scaled = logits[sampled].double() / logits.new_tensor(temperatures).double()[:, None]
        cumulative = torch.softmax(scaled, dim=-1).cumsum(dim=-1)
        drawn = torch.searchsorted(cumulative, logits.new_tensor(randoms).double()[:, None], right=True)
        tokens[sampled] = drawn[:, 0].clamp(max=logits.shape[-1] - 1)
    return tokens


def _end_ids(model: PreTrainedModel, tokenizer: PreTrainedTokenizerBase) -> frozenset[int]:
    configured = model.generation_config.eos_token_id if model.generation_config is not None else None
    ends = [configured] if isinstance(configured, int) else list(configured or ())
    return frozenset(i for i in [*ends, tokenizer.eos_token_id] if i is not None)
