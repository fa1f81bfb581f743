"""A causal language model whose decisions are tokens: what the trainer scores, and what plans and agents are."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

import torch
from torch import nn
from transformers import PreTrainedModel, PreTrainedTokenizerBase
from transformers.modeling_layers import GradientCheckpointingLayer

from orchestai.errors import UserError
from orchestai.lm import loading
from orchestai.lm.attention import without_dropout
from orchestai.lm.causal import CausalPolicy
from orchestai.lm.local_models import AGENTS, ModelKeys
from orchestai.tasks.task import Task
from orchestai.types import AnyDecisions, DecisionKind, Scores, TokenDecisions


class TokenPolicy(nn.Module):
    """A model, its tokenizer and, for PPO, a value head.

    Args:
        value_head: estimate the return at every token, for PPO.
        end_ids: tokens that end a completion, beside those of the model and its tokenizer.
        gradient_checkpointing: compute activations twice instead of keeping them.
        keys: of the configuration, for messages.

    Attributes:
        max_slots: most tokens that one trajectory decides.
        policy: the model, its end tokens and its value head.

    Raises:
        UserError: the model has no end token, or cannot be computed in packed form.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        tokenizer: PreTrainedTokenizerBase,
        *,
        max_slots: int,
        value_head: bool = False,
        end_ids: frozenset[int] = frozenset(),
        gradient_checkpointing: bool = False,
        keys: ModelKeys = AGENTS,
    ) -> None:
        super().__init__()
        if tokenizer.eos_token_id is None:
            raise UserError(f"{keys.name}: the model's tokenizer has no end-of-sequence token; take another model")
        self.tokenizer = tokenizer
        ends = loading.end_ids(model, tokenizer) | end_ids
        self.policy = CausalPolicy(model, ends, value_head=value_head, keys=keys)
        self.max_slots = max_slots
        self._checkpointed = gradient_checkpointing
        if gradient_checkpointing:
            model.gradient_checkpointing_enable({"use_reentrant": False})

    @property
    def model(self) -> PreTrainedModel:
        return self.policy.model

    def score(
        self,
        tasks: Sequence[Task],
        decisions: Sequence[AnyDecisions],
        *,
        explore: frozenset[DecisionKind],
        temperature: float,
    ) -> Scores:
        """Log-probabilities of tokens that were sampled; the tasks and `explore` do not matter. Without dropout.

        Slots are tokens, up to the longest completion of the rows.
        """
        tokens = [token_decisions(one) for one in decisions]
        with self._without_dropout():
            found = self.policy.score([one.prompt for one in tokens], [one.completion for one in tokens], temperature)
        step = torch.full(found.mask.shape[1:], -1, device=found.mask.device)
        return Scores(found.logp, found.entropy, found.value, found.mask, step)

    def cost(self, decisions: Sequence[AnyDecisions]) -> int:
        """Tokens that one pass over these rows reads; a prompt that rows share counts once."""
        tokens = [token_decisions(one) for one in decisions]
        prompts = {one.prompt.numpy().tobytes(): len(one.prompt) for one in tokens}
        return sum(prompts.values()) + sum(len(one.completion) for one in tokens)

    @property
    def has_adapter(self) -> bool:
        """Whether adapters learn, so that `reference` needs no second model."""
        return loading.has_adapter(self.model)

    def keep_reference(self) -> None:
        """Keep the adapter as it is now for `reference`; without this, that is the model without adapter."""
        loading.keep_reference(self.model)

    def reference(self) -> AbstractContextManager[None] | None:
        """A context in which this is the policy that training began from; None without adapters: only a copy can."""
        return loading.reference(self.model) if self.has_adapter else None

    def multiply_in(self, dtype: torch.dtype | None) -> None:
        """Sample and score under autocast to `dtype`, as the optimizer's steps do; None is the weights' own format."""
        self.policy.autocast = dtype

    @contextmanager
    def _without_dropout(self) -> Iterator[None]:
        """Layers keep no activations in training mode alone, so they are in it, but none of their parts is."""
        with without_dropout(self):
            if self._checkpointed and torch.is_grad_enabled():
                for layer in self.modules():
                    if isinstance(layer, GradientCheckpointingLayer):
                        layer.training = True
            yield


def token_decisions(decisions: AnyDecisions) -> TokenDecisions:
    """Raise `TypeError` where another kind of planner decided."""
    if not isinstance(decisions, TokenDecisions):
        raise TypeError(f"a language model scores tokens, not {type(decisions).__name__}")
    return decisions
