"""A causal language model as a policy over tokens: samples completions and says how likely given ones are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint

from orchestai.errors import UserError
from orchestai.lm import attention, sampling
from orchestai.lm.attention import pack
from orchestai.lm.local_models import AGENTS, ModelKeys
from orchestai.lm.sampling import Completion
from orchestai.lm.value_head import ValueHead

if TYPE_CHECKING:
    from torch import Tensor, nn
    from transformers import PreTrainedModel


_HELD = 2**25
"""Logits that are held at a time (128 MiB of float32); where there are more, they are computed again in the backward
pass, piece by piece."""
_PIECE = 64
"""Positions whose float32 intermediates are held at a time."""


def likelihood(
    head: nn.Module, hidden: Tensor, targets: Tensor, temperature: float, vocabulary: int
) -> tuple[Tensor, Tensor]:
    """Log-probability of `targets`, and entropy, both (positions,) float32 with gradient.

    Args:
        head: from hidden states to logits.
        hidden: (positions, hidden_size).
        targets: (positions,) int64.
        temperature: divides the logits.
        vocabulary: how many logits `head` gives.
    """

    def piece(states: Tensor, chosen: Tensor) -> tuple[Tensor, Tensor]:
        return _Likelihood.apply(head(states), chosen, temperature)

    size = max(_HELD // vocabulary, 1)
    if len(targets) <= size:
        return piece(hidden, targets)
    pieces: list[Any] = [
        checkpoint(piece, states, chosen, use_reentrant=False)
        for states, chosen in zip(hidden.split(size), targets.split(size), strict=True)
    ]
    logp, entropy = zip(*pieces, strict=True)
    return torch.cat(logp), torch.cat(entropy)


class _Likelihood(torch.autograd.Function):
    """With z the logits over the temperature and p = softmax(z): log p of the target, and H = lse(z) - sum(p z).

    dH/dz = -p (z - sum(p z)), so the backward pass needs z alone.
    """

    @staticmethod
    def forward(ctx: Any, logits: Tensor, targets: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
        chosen, total, mean = torch.empty(3, len(logits), dtype=torch.float32, device=logits.device)
        for start in range(0, len(logits), _PIECE):
            part = slice(start, start + _PIECE)
            scaled = logits[part].float() / temperature
            chosen[part] = scaled.gather(-1, targets[part, None])[:, 0]
            total[part] = scaled.logsumexp(-1)
            mean[part] = (scaled - total[part, None]).exp_().mul_(scaled).sum(-1)
        ctx.save_for_backward(logits, targets, total, mean)
        ctx.temperature = temperature
        return chosen - total, total - mean

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        logits, targets, total, mean = ctx.saved_tensors
        of_logp, of_entropy = (grad[:, None] / ctx.temperature for grad in grads)
        result = torch.empty_like(logits)
        for start in range(0, len(logits), _PIECE):
            part = slice(start, start + _PIECE)
            scaled = logits[part].float() / ctx.temperature
            weights = of_logp[part] + of_entropy[part] * (scaled - mean[part, None])
            gradient = scaled.sub_(total[part, None]).exp_().mul_(weights).neg_()
            result[part] = gradient.scatter_add_(-1, targets[part, None], of_logp[part])
        return result, None, None


_OTHER = "take another model (Llama, Qwen2, Qwen3, SmolLM2 and GPT-NeoX work)"


@dataclass(frozen=True, eq=False)
class TokenScores:
    """What a policy thinks of given completions; every tensor is (rows, tokens of the longest completion).

    Attributes:
        logp: float32; log-probability of the token at the given temperature, 0 where `mask` is False. With gradient.
        entropy: float32; of the distribution of the token, 0 where `mask` is False. With gradient.
        value: float32; expected return before the token; 0 where `mask` is False, and everywhere without a value
            head. With gradient.
        mask: bool; the tokens that exist. From lengths only.
    """

    logp: Tensor
    entropy: Tensor
    value: Tensor
    mask: Tensor


class CausalPolicy(nn.Module):
    """Wraps a causal language model, adapters of peft included. Rows with equal prompts share their computation.

    The model's attention is replaced (see `attention`); called by itself it works as before. On the first use it is
    verified that rows computed together are what they are alone.

    Attributes:
        model: the model; its own weights (or adapters) are what is learned.
        end_ids: tokens that end a completion.
        value_head: float32; None unless asked for; zero at first.
        context: most tokens of a prompt with its completion; None where the model sets no limit.
        autocast: the dtype in which sampling and scoring multiply; None for that of the weights.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        end_ids: frozenset[int],
        *,
        value_head: bool = False,
        keys: ModelKeys = AGENTS,
    ) -> None:
        """
        Args:
            keys: of the configuration, for messages.

        Raises:
            UserError: the model is of a kind that cannot be computed in packed form.
        """
        super().__init__()
        self.model = model
        self.end_ids = end_ids
        self._keys = keys
        config = model.config.get_text_config()
        self.context: int | None = getattr(config, "max_position_embeddings", None)
        self._vocabulary: int = config.vocab_size
        self._verified = False
        self.autocast: torch.dtype | None = None
        with self._telling():
            attention.prepare(model)
        self.value_head: ValueHead | None = None
        if value_head:
            self.value_head = ValueHead(config.hidden_size, 1, device=model.device)

    def forward(self, prompts: Sequence[Tensor], completions: Sequence[Tensor], temperature: float) -> TokenScores:
        """`score`, for wrappers that distribute a module and need its calls to go through them."""
        return self.score(prompts, completions, temperature)

    def score(self, prompts: Sequence[Tensor], completions: Sequence[Tensor], temperature: float) -> TokenScores:
        """How likely each token of each completion is after its prompt. With gradient.

        Args:
            prompts: per row (tokens,) int64, at least one token; rows with equal prompts share one copy.
            completions: per row (tokens,) int64; may be empty.
            temperature: positive; divides the logits.

        Raises:
            UserError: a row is longer than the context, the logits are not finite, or the model is unsuitable.
        """
        self._check_lengths([len(p) + len(c) for p, c in zip(prompts, completions, strict=True)], "with its completion")
        packing = pack(prompts, completions, self.model.device)
        head: Any = self.model.get_output_embeddings()
        with self._telling(), self._format():
            self._verify()
            hidden = attention.read(self.model, packing.ids, packing.positions, packing)[packing.sources]
            logp, entropy = likelihood(head, hidden, packing.targets, temperature, self._vocabulary)
            if not logp.isfinite().all():
                raise FloatingPointError("the log-probabilities of completions are not finite")
        shape = (len(prompts), max(map(len, completions)))

        def rows(values: Tensor) -> Tensor:
            return values.new_zeros(shape).index_put((packing.rows, packing.slots), values)

        value = torch.zeros_like(logp)
        if self.value_head is not None:
            with torch.autocast(hidden.device.type, enabled=False):
                value = self.value_head(hidden)[:, 0].float()
        return TokenScores(rows(logp), rows(entropy), rows(value), mask=rows(torch.ones_like(logp)).bool())

    def sample(
        self,
        prompts: Sequence[Tensor],
        seeds: Sequence[int],
        *,
        temperature: float,
        max_new_tokens: int,
    ) -> list[Completion]:
        """One completion per row; no gradient, no dropout. A row's result depends on its own prompt and seed alone.

        Args:
            prompts: per row (tokens,) int64, at least one token; equal prompts are read once.
            seeds: one per row.
            temperature: divides the logits; 0 takes the likeliest token.
            max_new_tokens: where a completion is cut off, if the context's end does not come first.

        Raises:
            UserError: a prompt leaves no room in the context, the logits are not finite, or the model is unsuitable.
        """
        self._check_lengths([len(prompt) + 1 for prompt in prompts], "with one token to write")
        limits = [
            max_new_tokens if self.context is None else min(max_new_tokens, self.context - len(prompt))
            for prompt in prompts
        ]
        with self._telling(), attention.without_dropout(self.model), self._format():
            self._verify()
            return sampling.sample(self.model, self.end_ids, prompts, seeds, temperature, limits)

    def _format(self) -> AbstractContextManager[object]:
        return nullcontext() if self.autocast is None else torch.autocast(self.model.device.type, self.autocast)

    def _check_lengths(self, lengths: Sequence[int], what: str) -> None:
        if self.context is not None and max(lengths) > self.context:
            raise UserError(
                f"{self._keys.name}: a prompt {what} has {max(lengths)} tokens, but the model's context is "
                f"{self.context}; shorten the prompt, lower {self._keys.section}.max_new_tokens, or take a model with "
                "a longer context"
            )

    @contextmanager
    def _telling(self) -> Iterator[None]:
        """Name the keys of the configuration in errors of the block."""
        keys = self._keys
        try:
            yield
        except attention.SlidingWindowError as error:
            raise UserError(
                f"{keys.name}: {error}; shorten the prompt, lower {keys.section}.max_new_tokens, or {_OTHER}"
            ) from error
        except attention.UnsuitableModelError as error:
            raise UserError(f"{keys.name}: {error}; {_OTHER}") from error
        except FloatingPointError as error:
            raise UserError(
                f"{keys.name}: {error}; the weights are broken: go back to an earlier checkpoint, with a lower "
                f"learning rate or gradient norm, or {keys.section}.dtype=float32"
            ) from error

    def _verify(self) -> None:
        """Compare packed with single rows once; not at once, since weights may be spread over processes later."""
        if not self._verified:
            attention.verify(self.model, self._vocabulary)
            self._verified = True
