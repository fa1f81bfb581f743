"""Keys and values of left-padded rows, for any causal model of transformers; beginnings of prompts are kept."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache, PreTrainedModel

from orchestai.lm.caches.prefix_store import KeyValues, PrefixStore


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


class PromptReader:
    """Reads prompts: what all of a batch begin with (worked examples) is read once, and kept for later batches.

    Args:
        kept: most beginnings that are kept; the oldest goes first.
        store: where other processes find those that were prepared.
    """

    def __init__(self, model: PreTrainedModel, kept: int, store: PrefixStore | None = None) -> None:
        self._model = model
        self._kept = kept
        self._store = store
        self._prefixes: OrderedDict[tuple[int, ...], KeyValues] = OrderedDict()

    def read(self, prompts: Sequence[tuple[int, ...]]) -> tuple[PaddedCache, Tensor]:
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

    def prepare(self, beginning: tuple[int, ...]) -> None:
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

    def forget(self) -> None:
        """Drop the kept beginnings (to free memory)."""
        self._prefixes.clear()

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
