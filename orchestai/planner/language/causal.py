"""A causal language model as a policy over tokens: samples completions and says how likely given ones are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import nn

from orchestai.planner.language import sampling
from orchestai.planner.language.sampling import Choose, Completion

if TYPE_CHECKING:
    from torch import Tensor
    from transformers import PreTrainedModel


@dataclass(frozen=True, eq=False)
class TokenScores:
    """What a policy thinks of given completions; every tensor is (rows, tokens of the longest completion).

    Attributes:
        logp: float32; log-probability of the token at the given temperature, 0 where `mask` is False. With gradient.
        entropy: float32; of the distribution of the token, 0 where `mask` is False. With gradient.
        value: float32; expected return before the token, 0 where `mask` is False or without a value head. With gradient.
        mask: bool; the tokens that exist. From lengths only.
    """

    logp: Tensor
    entropy: Tensor
    value: Tensor
    mask: Tensor


class CausalPolicy(nn.Module):
    """Wraps a causal language model.

    Attributes:
        model: the model; its own weights (or adapters) are what is learned.
        end_ids: tokens that end a completion.
        value_head: None unless asked for; zero at first.
    """

    def __init__(self, model: PreTrainedModel, end_ids: frozenset[int], *, value_head: bool = False) -> None:
        super().__init__()
        self.model = model
        self.end_ids = end_ids
        self.value_head: nn.Linear | None = None
        if value_head:
            self.value_head = nn.Linear(model.config.get_text_config().hidden_size, 1).to(model.device)
            nn.init.zeros_(self.value_head.weight)
            nn.init.zeros_(self.value_head.bias)

    def score(self, prompts: Sequence[Tensor], completions: Sequence[Tensor], temperature: float) -> TokenScores:
        """How likely each token of each completion is after its prompt. With gradient.

        Args:
            prompts: per row (tokens,) int64, at least one token; rows with equal prompts share one copy.
            completions: per row (tokens,) int64; may be empty.
            temperature: positive; divides the logits.
        """
        device = self.model.device
        rows = [torch.cat([p, c]) for p, c in zip(prompts, completions, strict=True)]
        width = max(map(len, rows))
        ids = torch.stack([nn.functional.pad(row, (0, width - len(row))) for row in rows]).to(device)
        lengths = torch.tensor([len(row) for row in rows], device=device)
        mask = torch.arange(width, device=device) < lengths[:, None]
        output: Any = self.model(input_ids=ids, attention_mask=mask.long(), output_hidden_states=True, use_cache=False)
        slots = torch.arange(max(map(len, completions)), device=device)
        starts = torch.tensor([len(prompt) for prompt in prompts], device=device)[:, None]
        places = (starts + slots).clamp(max=width - 1)
        exists = starts + slots < lengths[:, None]
        row = torch.arange(len(rows), device=device)[:, None]
        logp = (output.logits[row, places - 1].float() / temperature).log_softmax(-1)
        entropy = -(logp.exp() * logp).sum(-1)
        chosen = logp.gather(-1, ids[row, places][..., None])[..., 0]
        value = torch.zeros_like(chosen)
        if self.value_head is not None:
            value = self.value_head(output.hidden_states[-1][row, places - 1].float())[..., 0]
        return TokenScores(*(torch.where(exists, part, 0.0) for part in (chosen, entropy, value)), mask=exists)

    def sample(
        self,
        prompts: Sequence[Tensor],
        seeds: Sequence[int],
        *,
        temperature: float,
        max_new_tokens: int,
        choose: Choose | None = None,
    ) -> list[Completion]:
        """One completion per row; no gradient, no dropout. A row's result depends on its own prompt and seed alone.

        Args:
            prompts: per row (tokens,) int64, at least one token; equal prompts are read once.
            seeds: one per row.
            temperature: divides the logits; 0 takes the likeliest token.
            max_new_tokens: where a completion is cut off.
            choose: constrains what may be written.
        """
        training = self.model.training
        self.model.eval()
        try:
            return sampling.sample(self.model, self.end_ids, prompts, seeds, temperature, max_new_tokens, choose)
        finally:
            self.model.train(training)
