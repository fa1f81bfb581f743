"""What the tokens to come look at: keys and values of each prompt, stored once, and of what each row wrote."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch

from orchestai.lm.packing import Packing

if TYPE_CHECKING:
    from torch import Tensor

_FIRST_CAPACITY = 32


class Prefill:
    """Attends as a packing of prompts says, and remembers.

    Attributes:
        layers: per layer of the model keys and values, each (1, key heads, tokens, head_dim).
    """

    def __init__(self, packing: Packing) -> None:
        self._packing = packing
        self.longest = packing.longest
        self.layers: dict[int, tuple[Tensor, Tensor]] = {}

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scale: float, dropout: float) -> Tensor:
        self.layers[layer] = (key, value)
        return self._packing.attend(layer, query, key, value, scale, dropout)


class Memory:
    """Attends from one new token per row to the row's prompt and to all that the row wrote.

    Prompts are padded to the longest. Call `advance` before each forward pass.

    Attributes:
        lengths: (prompts,) int64; of the prompts.
        prompt_of: (rows,) int64; each row's prompt.
        written: tokens that each row has in memory, the new one included.
        longest: tokens of the longest row.
    """

    def __init__(self, prefill: Prefill, lengths: Tensor, prompt_of: Tensor) -> None:
        self.lengths = lengths
        self.prompt_of = prompt_of
        self.written = 0
        self._prompts: dict[int, tuple[Tensor, Tensor]] = {}
        self._own: dict[int, tuple[Tensor, Tensor]] = {}
        self._capacity = 0
        spans = lengths.tolist()
        while prefill.layers:
            layer, (keys, values) = prefill.layers.popitem()
            self._prompts[layer] = (_padded(keys, spans), _padded(values, spans))
        self._arrange()

    @property
    def longest(self) -> int:
        return int(self.lengths.max()) + self.written

    def advance(self) -> None:
        self.written += 1
        if self.written > self._capacity:
            self._capacity = max(2 * self._capacity, _FIRST_CAPACITY)
            for layer, (keys, values) in self._own.items():
                self._own[layer] = self._grown(keys), self._grown(values)

    def keep(self, rows: Tensor) -> None:
        """Let the other rows leave, and prompts without rows; `rows` are indices in ascending order."""
        for layer, (keys, values) in self._own.items():
            self._own[layer] = keys[rows], values[rows]
        used, self.prompt_of = self.prompt_of[rows].unique(return_inverse=True)
        if len(used) < len(self.lengths):
            self.lengths = self.lengths[used]
            longest = int(self.lengths.max())
            for layer, (keys, values) in self._prompts.items():
                self._prompts[layer] = keys[used, :, :longest], values[used, :, :longest]
        self._arrange()

    def attend(self, layer: int, query: Tensor, key: Tensor, value: Tensor, scale: float, dropout: float) -> Tensor:
        """(1, heads, rows, head_dim): one new token per row. See `attention.Attending`; there is no dropout here."""
        heads, rows = query.shape[1:3]
        key_heads = key.shape[1]
        keys, values = self._remember(layer, key[0].transpose(0, 1), value[0].transpose(0, 1))
        prompt_keys, prompt_values = self._prompts[layer]
        queries = (query[0].transpose(0, 1) * scale).unflatten(1, (key_heads, heads // key_heads))
        to_prompt = self._gather(self._scatter(queries) @ prompt_keys.transpose(2, 3), heads // key_heads)
        to_prompt = to_prompt.masked_fill(self._beyond[:, None, None, :], -torch.inf)
        to_own = queries @ keys.transpose(2, 3)
        weights = torch.cat([to_prompt, to_own], dim=-1).softmax(-1, dtype=torch.float32).to(query.dtype)
        width = prompt_keys.shape[2]
        from_prompt = self._gather(self._scatter(weights[..., :width]) @ prompt_values, heads // key_heads)
        return (from_prompt + weights[..., width:] @ values).reshape(rows, heads, -1).transpose(0, 1)[None]

    def _remember(self, layer: int, key: Tensor, value: Tensor) -> tuple[Tensor, Tensor]:
        """Add (rows, key heads, head_dim) and give all (rows, key heads, written, head_dim)."""
        if layer not in self._own:
            shape = (*key.shape[:2], self._capacity, key.shape[2])
            self._own[layer] = (key.new_empty(shape), value.new_empty((*shape[:3], value.shape[2])))
        keys, values = self._own[layer]
        keys[:, :, self.written - 1] = key
        values[:, :, self.written - 1] = value
        return keys[:, :, : self.written], values[:, :, : self.written]

    def _grown(self, states: Tensor) -> Tensor:
        grown = states.new_empty((*states.shape[:2], self._capacity, states.shape[3]))
        grown[:, :, : states.shape[2]] = states
        return grown

    def _arrange(self) -> None:
        """Where rows are when they are put by prompt: (prompts, most rows of a prompt)."""
        device = self.prompt_of.device
        order = self.prompt_of.argsort(stable=True)
        counts = self.prompt_of.bincount(minlength=len(self.lengths))
        place = torch.arange(len(order), device=device) - (counts.cumsum(0) - counts)[self.prompt_of[order]]
        self._place = torch.empty_like(place)
        self._place[order] = place
        self._most = int(counts.max())
        longest = int(self.lengths.max())
        self._beyond = torch.arange(longest, device=device) >= self.lengths[self.prompt_of][:, None]

    def _scatter(self, states: Tensor) -> Tensor:
        """From (rows, key heads, shared, x) to (prompts, key heads, most rows * shared, x)."""
        key_heads, shared, x = states.shape[1:]
        by_prompt = states.new_zeros(len(self.lengths), self._most, key_heads, shared, x)
        by_prompt[self.prompt_of, self._place] = states
        return by_prompt.transpose(1, 2).reshape(len(self.lengths), key_heads, self._most * shared, x)

    def _gather(self, states: Tensor, shared: int) -> Tensor:
        """The way back from `_scatter`."""
        by_prompt = states.unflatten(2, (self._most, shared)).transpose(1, 2)
        return by_prompt[self.prompt_of, self._place]


def _padded(states: Tensor, lengths: list[int]) -> Tensor:
    """(prompts, key heads, longest, head_dim) from packed (1, key heads, tokens, head_dim)."""
    padded = states.new_zeros(len(lengths), states.shape[1], max(lengths), states.shape[3])
    for prompt, part in enumerate(states[0].split(lengths, dim=1)):
        padded[prompt, :, : part.shape[1]] = part
    return padded
