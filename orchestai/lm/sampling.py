"""Samples completions: each distinct prompt is read once, then a token per row and step, until all rows have left.

A row's random numbers come from its own seed and are inverted through the cumulated distribution, so that rounding,
which depends on the batch, changes a token only where a random number lies within rounding of a border.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias

import torch

from orchestai.errors import UserError
from orchestai.lm.attention import read
from orchestai.lm.kv_cache import Memory, Prefill
from orchestai.lm.packing import pack
from orchestai.lm.weight_layout import blocked_weights

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel

Choose: TypeAlias = "Callable[[Sequence[int], Sequence[Sequence[int]], Tensor], Tensor]"
"""Processes logits before a token is drawn, to constrain what may be written.

Called once per step with the indices of the unfinished rows in the request, the ids that each has written so far, and
their logits (rows, vocabulary) in float32; returns logits of that shape, -inf where a token is forbidden.
"""


@dataclass(frozen=True, eq=False)
class Completion:
    """What was written after a prompt. CPU tensors.

    Attributes:
        ids: (tokens,) int64; the end-of-sequence token included where it was sampled.
        logp: (tokens,) float32; of each id under the distribution that it was drawn from (at temperature 1 where it
            was taken greedily). Without `choose` it is what `CausalPolicy.score` gives under the same weights.
        ended: whether an end-of-sequence token was written; else `max_new_tokens` or the context cut it off.
    """

    ids: Tensor
    logp: Tensor
    ended: bool


@dataclass
class _Row:
    """A row in progress: its place in the request, the random numbers in [0, 1) of its steps, and what it wrote."""

    index: int
    limit: int
    randoms: Tensor
    written: list[int] = field(default_factory=list)
    logp: list[float] = field(default_factory=list)


@torch.no_grad()
def sample(
    model: PreTrainedModel,
    end_ids: frozenset[int],
    prompts: Sequence[Tensor],
    seeds: Sequence[int],
    temperature: float,
    limits: Sequence[int],
    choose: Choose | None = None,
) -> list[Completion]:
    """One completion per row; see `CausalPolicy.sample`. `limits` are the most tokens of each row, at least one."""
    head: Any = model.get_output_embeddings()
    packing = pack(prompts, [prompt[:0] for prompt in prompts], model.device)
    prefill = Prefill(packing)
    hidden = read(model, packing.ids, packing.positions, prefill)
    prompt_of = torch.tensor(packing.group_of, device=model.device)
    logits = head(hidden[packing.ends])[prompt_of]
    del hidden
    memory = Memory(prefill, packing.positions[packing.ends] + 1, prompt_of)
    rows = [
        _Row(i, limit, torch.rand(limit, generator=torch.Generator().manual_seed(seed), dtype=torch.float64))
        for i, (seed, limit) in enumerate(zip(seeds, limits, strict=True))
    ]
    with blocked_weights(model):
        return _decode(model, end_ids, memory, logits, rows, temperature, choose)


def _decode(
    model: PreTrainedModel,
    end_ids: frozenset[int],
    memory: Memory,
    logits: Tensor,
    rows: Sequence[_Row],
    temperature: float,
    choose: Choose | None,
) -> list[Completion]:
    """A token per row and step until all rows have left. Logits (rows, vocabulary) are of the first tokens."""
    head: Any = model.get_output_embeddings()
    finished: dict[int, Completion] = {}
    while True:
        tokens = _draw(logits.float(), rows, temperature, choose)
        staying = []
        for place, row in enumerate(rows):
            ended = row.written[-1] in end_ids
            if ended or len(row.written) == row.limit:
                finished[row.index] = Completion(torch.tensor(row.written), torch.tensor(row.logp), ended)
            else:
                staying.append(place)
        if not staying:
            return [finished[i] for i in range(len(finished))]
        if len(staying) < len(rows):
            keep = torch.tensor(staying, device=tokens.device)
            memory.keep(keep)
            tokens = tokens[keep]
            rows = [rows[place] for place in staying]
        positions = memory.lengths[memory.prompt_of] + memory.written
        memory.advance()
        logits = head(read(model, tokens, positions, memory))


def _draw(logits: Tensor, rows: Sequence[_Row], temperature: float, choose: Choose | None) -> Tensor:
    """Next token per row, (rows,), also written to the rows with its log-probability. Logits are float32."""
    if not logits.isfinite().all():
        raise UserError(
            "the model's logits are not finite, so nothing can be sampled; its weights are broken: "
            "go back to an earlier checkpoint, with a lower learning rate or gradient norm, or dtype=float32"
        )
    if choose is not None:
        logits = choose([row.index for row in rows], [row.written for row in rows], logits)
    logp = (logits / (temperature or 1.0)).double().log_softmax(-1)
    if temperature == 0:
        tokens = logits.argmax(-1)
    else:
        randoms = torch.stack([row.randoms[len(row.written)] for row in rows]).to(logits.device)
        cumulated = logp.exp().cumsum(-1)
        drawn = torch.searchsorted(cumulated, randoms[:, None] * cumulated[:, -1:], right=True)[:, 0]
        tokens = drawn.clamp(max=logits.shape[-1] - 1)
    chosen = logp.gather(-1, tokens[:, None])[:, 0]
    for row, token, value in zip(rows, tokens.tolist(), chosen.tolist(), strict=True):
        row.written.append(token)
        row.logp.append(value)
    return tokens
