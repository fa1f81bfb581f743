"""Decoding with weights in blocks changes nothing but rounding and speed, and leaves the model as it was."""

from __future__ import annotations

import platform

import pytest
import torch
from transformers import LlamaConfig, LlamaForCausalLM

from orchestai.lm import sampling
from orchestai.lm.causal import CausalPolicy
from support.models.architectures import SIZE, model_of

PROMPTS = [torch.arange(first, first + 7) for first in (1, 1, 20)]


@pytest.fixture(autouse=True)
def _even_small_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "_CACHED", 0)


@pytest.fixture(autouse=True)
def _on_x86() -> None:
    if platform.machine().lower() not in ("x86_64", "amd64") or not torch.backends.mkldnn.is_available():
        pytest.skip("no blocks on this processor")


def llama() -> LlamaForCausalLM:
    model = model_of(LlamaConfig(**SIZE, num_key_value_heads=2, attention_bias=True))
    assert isinstance(model, LlamaForCausalLM)
    return model


def test_completions_are_those_of_plain_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    policy = CausalPolicy(llama(), frozenset({0}))
    blocked = policy.sample(PROMPTS, range(3), temperature=1.0, max_new_tokens=20)
    monkeypatch.setattr(sampling, "_CACHED", 2**25)
    plain = policy.sample(PROMPTS, range(3), temperature=1.0, max_new_tokens=20)
    scores = policy.score(PROMPTS, [row.ids for row in blocked], 1.0)
    for one, other, logp in zip(blocked, plain, scores.logp, strict=True):
        assert one.ids.tolist() == other.ids.tolist()
        torch.testing.assert_close(one.logp, other.logp, atol=1e-5, rtol=0)
        torch.testing.assert_close(one.logp, logp[: len(one.ids)].detach(), atol=1e-5, rtol=0)


def test_what_was_learned_in_between_is_sampled_with() -> None:
    model = llama()
    policy = CausalPolicy(model, frozenset({0}))
    policy.sample(PROMPTS, range(3), temperature=1.0, max_new_tokens=5)
    with torch.no_grad():
        model.lm_head.weight[1:] = 0
        model.lm_head.weight[7] = 1e3
    model.model.norm.weight.data.fill_(1.0)
    after = policy.sample(PROMPTS, range(3), temperature=1.0, max_new_tokens=5)
    scores = policy.score(PROMPTS, [row.ids for row in after], 1.0)
    for row, logp in zip(after, scores.logp, strict=True):
        torch.testing.assert_close(row.logp, logp[: len(row.ids)].detach(), atol=1e-4, rtol=0)
