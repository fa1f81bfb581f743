"""Samples completions for training: each distinct prompt is read once, and every token has its log-probability."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

import torch

from orchestai.lm.attention import Packing, pack, read

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel


@dataclass
class ActiveRow:
    """A row in progress.

    Attributes:
        index: its place in the request.
        limit: most tokens that it may write.
        randoms: (limit,) float64 in [0, 1); a number per step.
        written: ids so far.
    """

    index: int
    limit: int
    randoms: Tensor
    written: list[int] = field(default_factory=list)

    @classmethod
    def seeded(cls, index: int, limit: int, seed: int) -> ActiveRow:
        generator = torch.Generator().manual_seed(seed)
        return cls(index, limit, torch.rand(limit, generator=generator, dtype=torch.float64))


class Cache(Protocol):
    """The keys and values of the active rows."""

    def keep(self, rows: Tensor) -> None:
        """Let the other rows leave; `rows` are positions in ascending order."""
        ...

    def step(self, tokens: Tensor) -> Tensor:
        """Read a token per row, (rows,); return the logits of the next ones, (rows, vocabulary) float32."""
        ...


Pick: TypeAlias = "Callable[[Tensor, Sequence[ActiveRow]], Tensor]"
"""Next token per row, (rows,) int64, from logits (rows, vocabulary) in float32."""
Remaining: TypeAlias = Callable[[Sequence[ActiveRow]], list[int]]
"""Positions of the rows that go on after their newest token, in ascending order."""


def decode(cache: Cache, logits: Tensor, rows: Sequence[ActiveRow], pick: Pick, remaining: Remaining) -> None:
    """Write into `rows` until none remains.

    Args:
        cache: has read the rows' prompts.
        logits: (rows, vocabulary) float32; of the first tokens.
    """
    while True:
        tokens = pick(logits, rows)
        for row, token in zip(rows, tokens.tolist(), strict=True):
            row.written.append(token)
        staying = remaining(rows)
        if not staying:
            return
        if len(staying) < len(rows):
            kept = torch.tensor(staying, device=tokens.device)
            cache.keep(kept)
            tokens, rows = tokens[kept], [rows[position] for position in staying]
        logits = cache.step(tokens)


def step_randoms(rows: Sequence[ActiveRow]) -> Tensor:
    """The random numbers of the present step, (rows,) float64, on the CPU."""
    return torch.stack([row.randoms[len(row.written)] for row in rows])


def inverse_sample(cumulated: Tensor, randoms: Tensor) -> Tensor:
    """Tokens (rows,) at which cumulated probabilities (rows, vocabulary) pass the random numbers (rows,).

    Rounding, which depends on the batch, changes a token only where a number lies within rounding of a border.
    """
    drawn = torch.searchsorted(cumulated, randoms[:, None], right=True)[:, 0]
    return drawn.clamp(max=cumulated.shape[-1] - 1)


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

    Prompts are padded to the longest.

    Attributes:
        lengths: (prompts,) int64; of the prompts.
        prompt_of: (rows,) int64; each row's prompt.
        written: tokens that each row has in memory, the new one included.
        longest: tokens of the longest row.
    """

    def __init__(self, model: PreTrainedModel, prefill: Prefill, lengths: Tensor, prompt_of: Tensor) -> None:
        self._model = model
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

    def step(self, tokens: Tensor) -> Tensor:
        """Read a token per row; see `Cache.step`."""
        positions = self.lengths[self.prompt_of] + self.written
        self.written += 1
        if self.written > self._capacity:
            self._capacity = max(2 * self._capacity, _FIRST_CAPACITY)
            for layer, (keys, values) in self._own.items():
                self._own[layer] = self._grown(keys), self._grown(values)
        head: Any = self._model.get_output_embeddings()
        return head(read(self._model, tokens, positions, self)).float()

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


@dataclass(frozen=True, eq=False)
class Completion:
    """What was written after a prompt. CPU tensors.

    Attributes:
        ids: (tokens,) int64; the end-of-sequence token included where it was sampled.
        logp: (tokens,) float32; of each id under the distribution that it was drawn from (at temperature 1 where it
            was taken greedily); what `CausalPolicy.score` gives under the same weights.
        ended: whether an end-of-sequence token was written; else `max_new_tokens` or the context cut it off.
    """

    ids: Tensor
    logp: Tensor
    ended: bool


@torch.no_grad()
def sample(
    model: PreTrainedModel,
    end_ids: frozenset[int],
    prompts: Sequence[Tensor],
    seeds: Sequence[int],
    temperature: float,
    limits: Sequence[int],
) -> list[Completion]:
    """One completion per row; see `CausalPolicy.sample`. `limits` are the most tokens of each row, at least one.

    Raises:
        FloatingPointError: a logit is not finite.
    """
    head: Any = model.get_output_embeddings()
    packing = pack(prompts, [prompt[:0] for prompt in prompts], model.device)
    prefill = Prefill(packing)
    hidden = read(model, packing.ids, packing.positions, prefill)
    prompt_of = torch.tensor(packing.group_of, device=model.device)
    logits = head(hidden[packing.ends])[prompt_of].float()
    del hidden
    memory = Memory(model, prefill, packing.positions[packing.ends] + 1, prompt_of)
    rows = [ActiveRow.seeded(i, limit, seed) for i, (seed, limit) in enumerate(zip(seeds, limits, strict=True))]
    logp: list[list[float]] = [[] for _ in rows]

    def pick(logits: Tensor, active: Sequence[ActiveRow]) -> Tensor:
        tokens, chosen = _draw(logits, active, temperature)
        for row, value in zip(active, chosen.tolist(), strict=True):
            logp[row.index].append(value)
        return tokens

    def remaining(active: Sequence[ActiveRow]) -> list[int]:
        return [
            position
            for position, row in enumerate(active)
            if row.written[-1] not in end_ids and len(row.written) < row.limit
        ]

    decode(memory, logits, rows, pick, remaining)
    return [
        Completion(torch.tensor(row.written), torch.tensor(logp[row.index]), row.written[-1] in end_ids) for row in rows
    ]


def _draw(logits: Tensor, rows: Sequence[ActiveRow], temperature: float) -> tuple[Tensor, Tensor]:
    """Next token per row and its log-probability, both (rows,). Logits are float32.

    Raises:
        FloatingPointError: a logit is not finite.
    """
    if not logits.isfinite().all():
        raise FloatingPointError("the model's logits are not finite, so nothing can be sampled")
    logp = (logits / (temperature or 1.0)).double().log_softmax(-1)
    if temperature == 0:
        tokens = logits.argmax(-1)
    else:
        cumulated = logp.exp().cumsum(-1)
        tokens = inverse_sample(cumulated, step_randoms(rows).to(logits.device) * cumulated[:, -1])
    return tokens, logp.gather(-1, tokens[:, None])[:, 0]
