"""The packed policy is exactly the padded computation, whatever the model, the lengths and the neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import (
    AutoModelForCausalLM,
    BloomConfig,
    Gemma2Config,
    GPTNeoXConfig,
    LlamaConfig,
    MistralConfig,
    PreTrainedModel,
    Qwen2Config,
    Qwen3Config,
)

from orchestai.errors import UserError
from orchestai.planner.language import likelihood as likelihood_module
from orchestai.planner.language.causal import CausalPolicy, TokenScores

_SIZE = {
    "vocab_size": 50,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "initializer_range": 0.3,
    "max_position_embeddings": 64,
}
CONFIGS = {
    "llama": LlamaConfig(**_SIZE, num_key_value_heads=2),
    "qwen2": Qwen2Config(**_SIZE, num_key_value_heads=1, tie_word_embeddings=True),
    "qwen3": Qwen3Config(**_SIZE, num_key_value_heads=2, head_dim=16),
    "gpt_neox": GPTNeoXConfig(**_SIZE),
}
END = frozenset({0})


def model_of(config: Any) -> PreTrainedModel:
    torch.manual_seed(0)
    return AutoModelForCausalLM.from_config(config, dtype=torch.float32)


def padded_scores(
    policy: CausalPolicy, prompts: Sequence[Tensor], completions: Sequence[Tensor], temperature: float
) -> TokenScores:
    """The plain computation: rows padded to one rectangle, logits of all positions. The reference of these tests."""
    rows = [torch.cat([p, c]) for p, c in zip(prompts, completions, strict=True)]
    width = max(map(len, rows)) + 1
    ids = torch.stack([torch.nn.functional.pad(row, (0, width - len(row))) for row in rows])
    lengths = torch.tensor([len(row) for row in rows])[:, None]
    attended = (torch.arange(width) < lengths).long()
    output: Any = policy.model(input_ids=ids, attention_mask=attended, output_hidden_states=True, use_cache=False)
    starts = torch.tensor([len(prompt) for prompt in prompts])[:, None]
    places = starts + torch.arange(max(map(len, completions)))
    mask = places < lengths
    places = places.clamp(max=width - 1)
    row = torch.arange(len(rows))[:, None]
    logp = (output.logits[row, places - 1].float() / temperature).log_softmax(-1)
    chosen = logp.gather(-1, ids[row, places][..., None])[..., 0]
    entropy = -(logp.exp() * logp).sum(-1)
    value = torch.zeros_like(chosen)
    if policy.value_head is not None:
        value = policy.value_head(output.hidden_states[-1][row, places - 1].float())[..., 0]
    return TokenScores(*(torch.where(mask, part, 0.0) for part in (chosen, entropy, value)), mask)  # type: ignore[arg-type]


def rows_of(groups: Sequence[tuple[int, Sequence[int]]]) -> tuple[list[Tensor], list[Tensor]]:
    """Random prompts and completions; per group the prompt's length and the completions' lengths."""
    generator = torch.Generator().manual_seed(1)
    prompts, completions = [], []
    for length, lengths in groups:
        prompt = torch.randint(1, 50, (length,), generator=generator)
        prompts += [prompt.clone() for _ in lengths]
        completions += [torch.randint(0, 50, (n,), generator=generator) for n in lengths]
    return prompts, completions


def loss_of(scores: TokenScores) -> Tensor:
    generator = torch.Generator().manual_seed(2)
    weights = torch.rand(3, *scores.logp.shape, generator=generator)
    return (weights[0] * scores.logp + weights[1] * scores.entropy + weights[2] * scores.value**2).sum()


def gradients(policy: CausalPolicy, loss: Tensor) -> dict[str, Tensor]:
    policy.zero_grad()
    loss.backward()
    return {name: p.grad.clone() for name, p in policy.named_parameters() if p.grad is not None}


def assert_same(policy: CausalPolicy, prompts: list[Tensor], completions: list[Tensor], temperature: float) -> float:
    expected = padded_scores(policy, prompts, completions, temperature)
    expected_gradients = gradients(policy, loss_of(expected))
    scores = policy.score(prompts, completions, temperature)
    found_gradients = gradients(policy, loss_of(scores))
    assert torch.equal(scores.mask, expected.mask)
    worst = 0.0
    for name in ("logp", "entropy", "value"):
        torch.testing.assert_close(getattr(scores, name), getattr(expected, name), atol=1e-5, rtol=1e-5)
    assert found_gradients.keys() == expected_gradients.keys()
    for name, gradient in expected_gradients.items():
        difference = float((found_gradients[name] - gradient).abs().max() / gradient.abs().max().clamp(min=1e-3))
        worst = max(worst, difference)
    assert worst < 1e-5
    return worst


GROUPS = {
    "several": [(7, [3, 5, 4]), (2, [6, 6]), (11, [1, 9, 2, 4])],
    "empty and single tokens": [(5, [0, 1, 4]), (3, [1, 1]), (4, [0]), (6, [2])],
    "groups of one": [(4, [3]), (9, [5]), (1, [2])],
    "all empty": [(4, [0, 0])],
}


@pytest.mark.parametrize("kind", CONFIGS)
@pytest.mark.parametrize("groups", GROUPS.values(), ids=GROUPS)
def test_loss_and_gradients_are_those_of_padded_rows(kind: str, groups: list[tuple[int, list[int]]]) -> None:
    policy = CausalPolicy(model_of(CONFIGS[kind]), END, value_head=True)
    assert policy.value_head is not None
    torch.nn.init.normal_(policy.value_head.weight)
    assert_same(policy, *rows_of(groups), temperature=0.7)
