"""Samples completions with a causal language model."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from transformers import DynamicCache

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
    max_new_tokens: int,
    choose: Choose | None = None,
) -> list[Completion]:
    device = model.device
    width = max(map(len, prompts))
    ids = torch.stack([torch.nn.functional.pad(prompt, (width - len(prompt), 0)) for prompt in prompts]).to(device)
    mask = torch.tensor([[0] * (width - len(prompt)) + [1] * len(prompt) for prompt in prompts], device=device)
    randoms = [
        torch.rand(max_new_tokens, generator=torch.Generator().manual_seed(s), dtype=torch.float64) for s in seeds
    ]
    cache = DynamicCache()
    written: list[list[int]] = [[] for _ in prompts]
    logps: list[list[float]] = [[] for _ in prompts]
    done = [False] * len(prompts)
    for step in range(max_new_tokens):
        positions = (mask.cumsum(1) - 1).clamp(min=0)[:, -ids.shape[1] :]
        output: Any = model(input_ids=ids, attention_mask=mask, position_ids=positions, past_key_values=cache)
        logits = output.logits[:, -1].float()
        if choose is not None:
            logits = choose(range(len(prompts)), written, logits)
        logp = (logits / (temperature or 1)).double().log_softmax(-1)
        drawn = torch.searchsorted(logp.exp().cumsum(-1), torch.stack([r[step] for r in randoms])[:, None], right=True)
        ids = logits.argmax(-1, keepdim=True) if temperature == 0 else drawn.clamp(max=logits.shape[-1] - 1)
        for i, token in enumerate(ids[:, 0].tolist()):
            if not done[i]:
                written[i].append(token)
                logps[i].append(float(logp[i, token]))
                done[i] = token in end_ids
        if all(done):
            break
        mask = torch.nn.functional.pad(mask, (0, 1), value=1)
    return [
        Completion(torch.tensor(w, dtype=torch.long), torch.tensor(p), d)
        for w, p, d in zip(written, logps, done, strict=True)
    ]
