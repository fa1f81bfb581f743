"""The packed policy is exactly the padded computation, whatever the model, the lengths and the neighbors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from torch import Tensor
from transformers import (
    LlamaConfig,
    MistralConfig,
)

from orchestai.errors import UserError
from orchestai.lm import causal
from orchestai.lm.causal import CausalPolicy, TokenScores
from support.models.architectures import CONFIGS, END, SIZE, model_of


def _count_calls(module: torch.nn.Module) -> list[None]:
    calls: list[None] = []
    module.register_forward_hook(lambda *_: calls.append(None))
    return calls


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


def llama(**changes: Any) -> CausalPolicy:
    return CausalPolicy(model_of(LlamaConfig(**(SIZE | {"num_key_value_heads": 2} | changes))), END)


def loss_of(scores: TokenScores) -> Tensor:
    generator = torch.Generator().manual_seed(2)
    weights = torch.rand(3, *scores.logp.shape, generator=generator)
    return (weights[0] * scores.logp + weights[1] * scores.entropy + weights[2] * scores.value**2).sum()


def gradients(policy: CausalPolicy, loss: Tensor) -> dict[str, Tensor]:
    policy.zero_grad()
    loss.backward()
    return {name: p.grad.clone() for name, p in policy.named_parameters() if p.grad is not None}


def assert_same(policy: CausalPolicy, prompts: list[Tensor], completions: list[Tensor], temperature: float) -> None:
    expected = padded_scores(policy, prompts, completions, temperature)
    expected_gradients = gradients(policy, loss_of(expected))
    scores = policy.score(prompts, completions, temperature)
    found_gradients = gradients(policy, loss_of(scores))
    assert torch.equal(scores.mask, expected.mask)
    for name in ("logp", "entropy", "value"):
        torch.testing.assert_close(getattr(scores, name), getattr(expected, name), atol=1e-5, rtol=1e-5)
    assert found_gradients.keys() == expected_gradients.keys()
    for name, gradient in expected_gradients.items():
        scale = gradient.abs().max().clamp(min=1e-3)
        torch.testing.assert_close(found_gradients[name] / scale, gradient / scale, atol=1e-5, rtol=0, msg=name)


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


def test_loss_and_gradients_hold_where_the_logits_are_computed_piece_by_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(causal, "_HELD", 7 * 50)
    monkeypatch.setattr(causal, "_PIECE", 3)
    assert_same(llama(), *rows_of(GROUPS["several"]), temperature=1.3)


def test_derivatives_of_the_likelihood_are_right() -> None:
    logits = torch.randn(5, 7, dtype=torch.float64, requires_grad=True)
    targets = torch.tensor([0, 6, 3, 3, 1])
    weights = torch.rand(2, 5)
    logp, entropy = causal._Likelihood.apply(logits, targets, 0.7)
    (found,) = torch.autograd.grad((weights[0] * logp + weights[1] * entropy).sum(), logits)
    plain = (logits / 0.7).log_softmax(-1)
    expected_loss = weights[0] * plain.gather(-1, targets[:, None])[:, 0] - weights[1] * (plain.exp() * plain).sum(-1)
    (expected,) = torch.autograd.grad(expected_loss.sum(), logits)
    torch.testing.assert_close(found, expected, atol=1e-6, rtol=0)


def test_gradient_checkpointing_changes_nothing() -> None:
    policy = llama()
    prompts, completions = rows_of(GROUPS["several"])
    policy.train()
    expected = gradients(policy, loss_of(policy.score(prompts, completions, 1.0)))
    policy.model.gradient_checkpointing_enable()
    layers = _count_calls(policy.model.get_decoder().layers[0].input_layernorm)
    found = gradients(policy, loss_of(policy.score(prompts, completions, 1.0)))
    assert len(layers) == 2, "forward, and again in the backward pass"
    for name, gradient in expected.items():
        torch.testing.assert_close(found[name], gradient, atol=1e-5, rtol=1e-4)


def test_adapters_are_learned_and_sampled_with() -> None:
    peft = pytest.importorskip("peft")
    config = peft.LoraConfig(r=4, target_modules=["q_proj", "v_proj", "down_proj"], init_lora_weights=False)
    policy = CausalPolicy(peft.get_peft_model(model_of(CONFIGS["llama"]), config), END)
    prompts, completions = rows_of(GROUPS["several"])
    assert_same(policy, prompts, completions, temperature=1.0)
    assert all("lora_" in name for name in gradients(policy, loss_of(policy.score(prompts, completions, 1.0))))
    assert_sampled_as_scored(policy, prompts)
    with policy.model.disable_adapter():
        reference = policy.score(prompts, completions, 1.0)
    plain = CausalPolicy(model_of(CONFIGS["llama"]), END).score(prompts, completions, 1.0)
    torch.testing.assert_close(reference.logp, plain.logp, atol=1e-5, rtol=0)


def test_half_precision_weights_give_float32_scores_near_the_exact_ones() -> None:
    policy = llama(initializer_range=0.1)
    prompts, completions = rows_of(GROUPS["several"])
    exact = policy.score(prompts, completions, 1.0)
    half = CausalPolicy(policy.model.to(torch.bfloat16), END, value_head=True)
    scores = half.score(prompts, completions, 1.0)
    assert scores.logp.dtype == scores.entropy.dtype == scores.value.dtype == torch.float32
    torch.testing.assert_close(scores.logp, exact.logp, atol=0.1, rtol=0)
    loss_of(scores).backward()
    written = half.sample(prompts, range(len(prompts)), temperature=1.0, max_new_tokens=8)
    again = half.score(prompts, [row.ids for row in written], 1.0)
    for row, logp in zip(written, again.logp, strict=True):
        torch.testing.assert_close(row.logp, logp[: len(row.ids)].detach(), atol=0.1, rtol=0)


def assert_sampled_as_scored(policy: CausalPolicy, prompts: Sequence[Tensor], temperature: float = 1.0) -> None:
    written = policy.sample(prompts, range(len(prompts)), temperature=temperature, max_new_tokens=40)
    assert len({len(row.ids) for row in written}) > 1, "rows must leave at different times for this test to say much"
    scores = policy.score(prompts, [row.ids for row in written], temperature)
    for row, logp, mask in zip(written, scores.logp, scores.mask, strict=True):
        torch.testing.assert_close(row.logp, logp[mask].detach(), atol=1e-4, rtol=0)


@pytest.mark.parametrize("kind", CONFIGS)
def test_what_is_sampled_is_scored_alike(kind: str) -> None:
    prompts, _ = rows_of(GROUPS["several"])
    assert_sampled_as_scored(CausalPolicy(model_of(CONFIGS[kind]), END), prompts, temperature=0.8)


def test_a_row_is_sampled_alike_whatever_its_neighbours_are() -> None:
    policy = llama()
    prompts, _ = rows_of(GROUPS["several"])
    seeds = [100 + row for row in range(len(prompts))]
    together = policy.sample(prompts, seeds, temperature=1.0, max_new_tokens=40)
    for row, (prompt, seed) in enumerate(zip(prompts, seeds, strict=True)):
        alone = policy.sample([prompt], [seed], temperature=1.0, max_new_tokens=40)[0]
        assert alone.ids.tolist() == together[row].ids.tolist()
        torch.testing.assert_close(alone.logp, together[row].logp, atol=1e-4, rtol=0)


def test_samples_follow_the_distribution() -> None:
    policy = llama(initializer_range=0.1)
    prompt = torch.tensor([3, 4, 5])
    drawn = policy.sample([prompt] * 4000, range(4000), temperature=1.5, max_new_tokens=1)
    counts = torch.bincount(torch.cat([row.ids for row in drawn]), minlength=50) / 4000
    logp = policy.score([prompt] * 50, list(torch.arange(50)[:, None]), 1.5).logp[:, 0].detach()
    assert float((counts - logp.exp()).abs().max()) < 0.02


def test_greedy_completions_are_those_of_generate() -> None:
    policy = llama()
    prompts, _ = rows_of([(7, [0, 0]), (2, [0]), (11, [0])])
    written = policy.sample(prompts, [0] * 4, temperature=0, max_new_tokens=30)
    for prompt, row in zip(prompts, written, strict=True):
        generated: Any = policy.model.generate(  # type: ignore[operator]
            prompt[None],
            attention_mask=torch.ones_like(prompt[None]),
            do_sample=False,
            max_new_tokens=30,
            eos_token_id=0,
        )
        assert row.ids.tolist() == generated[0, len(prompt) :].tolist()


def test_rows_end_with_an_end_token_or_are_cut_off() -> None:
    prompts, _ = rows_of(GROUPS["several"])
    policy = llama()
    policy.end_ids = frozenset(range(0, 50, 10))
    for row in policy.sample(prompts, range(len(prompts)), temperature=1.0, max_new_tokens=12):
        ends = [int(i) in policy.end_ids for i in row.ids]
        assert not any(ends[:-1])
        assert row.ended == ends[-1]
        assert row.ended or len(row.ids) == 12


def test_a_row_too_long_for_the_angles_of_short_ones_is_refused() -> None:
    """Phi-3's log-probabilities beside a longer row were 4 to 9 nats off."""
    rope = {"rope_type": "longrope", "rope_theta": 1e4, "short_factor": [1.0] * 4, "long_factor": [8.0] * 4}
    policy = llama(rope_parameters={**rope, "original_max_position_embeddings": 13})
    assert_same(policy, *rows_of([(6, [4, 6]), (3, [2])]), temperature=1.0)
    with pytest.raises(UserError, match="rotated otherwise in rows of more than 13 tokens"):
        policy.score(*rows_of([(6, [4]), (9, [6])]), 1.0)


def test_a_sliding_window_is_fine_until_a_row_is_longer() -> None:
    policy = CausalPolicy(model_of(MistralConfig(**SIZE, num_key_value_heads=2, sliding_window=12)), END)
    policy.end_ids = frozenset()
    prompts, completions = rows_of([(6, [4, 6]), (3, [2])])
    assert_same(policy, prompts, completions, temperature=1.0)
    with pytest.raises(UserError, match="12 tokens at most"):
        policy.score(*rows_of([(9, [5])]), 1.0)
    with pytest.raises(UserError, match="12 tokens at most"):
        policy.sample(prompts, range(3), temperature=1.0, max_new_tokens=10)
