"""Samples completions for training: each distinct prompt is read once, and every token has its log-probability."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import torch

from orchestai.lm.attention import read
from orchestai.lm.caches.kv_cache import Memory, Prefill
from orchestai.lm.decoding import ActiveRow, decode, inverse_sample, step_randoms
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
    memory = Memory(prefill, packing.positions[packing.ends] + 1, prompt_of)
    rows = [ActiveRow.seeded(i, limit, seed) for i, (seed, limit) in enumerate(zip(seeds, limits, strict=True))]
    logp: list[list[float]] = [[] for _ in rows]

    def pick(logits: Tensor, active: Sequence[ActiveRow]) -> Tensor:
        tokens, chosen = _draw(logits, active, temperature, choose)
        for row, value in zip(active, chosen.tolist(), strict=True):
            logp[row.index].append(value)
        return tokens

    def remaining(active: Sequence[ActiveRow]) -> list[int]:
        return [
            position
            for position, row in enumerate(active)
            if row.written[-1] not in end_ids and len(row.written) < row.limit
        ]

    with blocked_weights(model):
        decode(_PackedCache(model, memory), logits, rows, pick, remaining)
    return [
        Completion(torch.tensor(row.written), torch.tensor(logp[row.index]), row.written[-1] in end_ids) for row in rows
    ]


class _PackedCache:
    """The memory of a model whose prompts were packed (see `decoding.Cache`)."""

    def __init__(self, model: PreTrainedModel, memory: Memory) -> None:
        self._model = model
        self._memory = memory

    def keep(self, rows: Tensor) -> None:
        self._memory.keep(rows)

    def step(self, tokens: Tensor) -> Tensor:
        memory = self._memory
        positions = memory.lengths[memory.prompt_of] + memory.written
        memory.advance()
        head: Any = self._model.get_output_embeddings()
        return head(read(self._model, tokens, positions, memory)).float()


def _draw(
    logits: Tensor, rows: Sequence[ActiveRow], temperature: float, choose: Choose | None
) -> tuple[Tensor, Tensor]:
    """Next token per row and its log-probability, both (rows,). Logits are float32.

    Raises:
        FloatingPointError: a logit is not finite.
    """
    if not logits.isfinite().all():
        raise FloatingPointError("the model's logits are not finite, so nothing can be sampled")
    if choose is not None:
        logits = choose([row.index for row in rows], [row.written for row in rows], logits)
    logp = (logits / (temperature or 1.0)).double().log_softmax(-1)
    if temperature == 0:
        tokens = logits.argmax(-1)
    else:
        cumulated = logp.exp().cumsum(-1)
        tokens = inverse_sample(cumulated, step_randoms(rows).to(logits.device) * cumulated[:, -1])
    return tokens, logp.gather(-1, tokens[:, None])[:, 0]
