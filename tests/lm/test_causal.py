"""The packed policy is exactly the padded computation, whatever the model, the lengths and the neighbors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
import torch
from peft import LoraConfig
from torch import Tensor
from transformers import (
    BloomConfig,
    Cohere2Config,
    Gemma2Config,
    LlamaConfig,
    MistralConfig,
)

from orchestai.errors import UserError
from orchestai.lm import log_probs
from orchestai.lm.causal import CausalPolicy, TokenScores
from orchestai.lm.model_keys import ModelKeys
from orchestai.lm.token_policy import TokenPolicy
from orchestai.types import TokenDecisions
from support.models.architectures import CONFIGS, END, SIZE, model_of
from support.models.language_model import tiny_tokenizer


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


def test_permuted_rows_give_permuted_scores() -> None:
    policy = llama()
    prompts, completions = rows_of(GROUPS["several"])
    order = torch.randperm(len(prompts), generator=torch.Generator().manual_seed(0))
    expected = policy.score(prompts, completions, 1.0)
    found = policy.score([prompts[i] for i in order], [completions[i] for i in order], 1.0)
    torch.testing.assert_close(found.logp, expected.logp[order], atol=1e-5, rtol=0)


def test_loss_and_gradients_hold_where_the_logits_are_computed_piece_by_piece(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(log_probs, "_HELD", 7 * 50)
    monkeypatch.setattr(log_probs, "_PIECE", 3)
    assert_same(llama(), *rows_of(GROUPS["several"]), temperature=1.3)


def test_derivatives_of_the_likelihood_are_right() -> None:
    logits = torch.randn(5, 7, dtype=torch.float64, requires_grad=True)
    targets = torch.tensor([0, 6, 3, 3, 1])
    weights = torch.rand(2, 5)
    logp, entropy = log_probs._Likelihood.apply(logits, targets, 0.7)
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


def test_scores_have_no_dropout_where_activations_are_computed_twice() -> None:
    """Layers keep no activations in training mode alone, and there attention drops half of what it sees, in the forward
    pass only. Sampling does not, and the first score verifies the model, which must not change the mode either."""

    def policy(**options: Any) -> TokenPolicy:
        config = LlamaConfig(**SIZE, attention_dropout=0.5)
        lora = LoraConfig(r=4, target_modules=["q_proj"], lora_dropout=0.5, init_lora_weights=False)
        model = model_of(config)
        model.add_adapter(lora)
        return TokenPolicy(model, tiny_tokenizer(), max_slots=8, **options).eval()

    prompts, completions = rows_of(GROUPS["several"])
    rows = [TokenDecisions(*row) for row in zip(prompts, completions, strict=True)]
    found = []
    for one in (policy(), policy(gradient_checkpointing=True)):
        layers = _count_calls(one.model.get_decoder().layers[0].input_layernorm)
        for _ in range(2):
            one.zero_grad()
            scores = one.score([], rows, explore=frozenset(), temperature=1.0)
            del layers[:-1]
            scores.logp.sum().backward()
        found.append((scores.logp.detach(), {n: p.grad for n, p in one.named_parameters() if p.requires_grad}))
        assert len(layers) == 2 if one._checkpointed else 1
        assert not any(part.training for part in one.modules())
    (logp, gradients), (again, also) = found
    torch.testing.assert_close(again, logp, atol=1e-5, rtol=0)
    for name, gradient in gradients.items():
        torch.testing.assert_close(also[name], gradient, atol=1e-4, rtol=1e-4)


def _count_calls(module: torch.nn.Module) -> list[None]:
    calls: list[None] = []
    module.register_forward_hook(lambda *_: calls.append(None))
    return calls


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


def test_a_value_head_starts_at_zero_and_values_are_zero_without_one() -> None:
    prompts, completions = rows_of(GROUPS["several"])
    with_head = CausalPolicy(model_of(CONFIGS["llama"]), END, value_head=True)
    for policy in (llama(), with_head):
        assert not policy.score(prompts, completions, 1.0).value.any()


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


def test_each_row_is_cut_off_where_its_own_context_ends() -> None:
    policy = llama(max_position_embeddings=16)
    policy.end_ids = frozenset()
    prompts, _ = rows_of([(15, [0]), (10, [0, 0])])
    written = policy.sample(prompts, [0, 1, 2], temperature=1.0, max_new_tokens=50)
    assert [len(row.ids) for row in written] == [1, 6, 6]
    policy.score(prompts, [row.ids for row in written], 1.0)


def test_prompts_and_rows_beyond_the_context_are_refused() -> None:
    policy = llama(max_position_embeddings=16)
    with pytest.raises(UserError, match=r"17 tokens.*context is 16"):
        policy.sample([torch.ones(16, dtype=torch.long)], [0], temperature=1.0, max_new_tokens=4)
    with pytest.raises(UserError, match=r"20 tokens.*context is 16"):
        policy.score([torch.ones(15, dtype=torch.long)], [torch.ones(5, dtype=torch.long)], 1.0)


def test_forbidden_tokens_are_never_drawn_and_each_row_is_told_apart() -> None:
    policy = llama()
    prompts, _ = rows_of([(4, [0, 0, 0]), (6, [0, 0])])
    told: dict[int, list[int]] = {}

    def choose(rows: Sequence[int], written: Sequence[Sequence[int]], logits: Tensor) -> Tensor:
        for place, (row, ids) in enumerate(zip(rows, written, strict=True)):
            told[row] = list(ids)
            allowed = 11 + row if len(ids) < 3 + row else 0
            logits[place, torch.arange(50) != allowed] = -torch.inf
        return logits

    for temperature in (0.0, 1.0):
        found = policy.sample(prompts, range(5), temperature=temperature, max_new_tokens=20, choose=choose)
        for row, completion in enumerate(found):
            assert completion.ids.tolist() == [11 + row] * (3 + row) + [0]
            assert completion.logp.abs().max() < 1e-6
            assert told[row] == completion.ids.tolist()[:-1]


def test_there_is_dropout_in_training_but_not_in_sampling() -> None:
    policy = llama(attention_dropout=0.5)
    prompts, completions = rows_of(GROUPS["several"])
    policy.train()
    assert not torch.equal(policy.score(prompts, completions, 1.0).logp, policy.score(prompts, completions, 1.0).logp)
    written = policy.sample(prompts, range(len(prompts)), temperature=1.0, max_new_tokens=8)
    assert policy.model.training
    policy.eval()
    scores = policy.score(prompts, [row.ids for row in written], 1.0)
    for row, logp in zip(written, scores.logp, strict=True):
        torch.testing.assert_close(row.logp, logp[: len(row.ids)].detach(), atol=1e-4, rtol=0)


def test_broken_weights_are_reported() -> None:
    policy = llama()
    prompts, completions = rows_of(GROUPS["several"])
    policy.score(prompts, completions, 1.0)
    policy.model.get_decoder().norm.weight.data[0] = torch.nan
    with pytest.raises(UserError, match="not finite"):
        policy.score(prompts, completions, 1.0)
    with pytest.raises(UserError, match="not finite"):
        policy.sample(prompts, range(len(prompts)), temperature=1.0, max_new_tokens=4)


def test_messages_name_the_keys_of_the_section_that_the_model_is_of() -> None:
    keys = ModelKeys("planner.language.model", "planner.language")
    prompts, completions = [torch.arange(1, 12)], [torch.arange(1, 10)]
    short = CausalPolicy(model_of(LlamaConfig(**SIZE | {"max_position_embeddings": 16})), END, keys=keys)
    with pytest.raises(UserError, match=r"^planner\.language\.model: .*planner\.language\.max_new_tokens"):
        short.score(prompts, completions, 1.0)
    narrow = CausalPolicy(model_of(MistralConfig(**SIZE, num_key_value_heads=2, sliding_window=12)), END, keys=keys)
    with pytest.raises(UserError, match=r"^planner\.language\.model: .*planner\.language\.max_new_tokens"):
        narrow.score(prompts, completions, 1.0)
    broken = CausalPolicy(model_of(LlamaConfig(**SIZE)), END, keys=keys)
    broken.score(prompts, completions, 1.0)
    broken.model.get_output_embeddings().weight.data.fill_(torch.nan)
    with pytest.raises(UserError, match=r"^planner\.language\.model: .*planner\.language\.dtype=float32"):
        broken.score(prompts, completions, 1.0)
    with pytest.raises(UserError, match=r"^planner\.language\.model: .*planner\.language\.dtype=float32"):
        broken.sample(prompts, [0], temperature=1.0, max_new_tokens=2)


def test_a_sliding_window_is_fine_until_a_row_is_longer() -> None:
    policy = CausalPolicy(model_of(MistralConfig(**SIZE, num_key_value_heads=2, sliding_window=12)), END)
    policy.end_ids = frozenset()
    prompts, completions = rows_of([(6, [4, 6]), (3, [2])])
    assert_same(policy, prompts, completions, temperature=1.0)
    with pytest.raises(UserError, match="12 tokens at most"):
        policy.score(*rows_of([(9, [5])]), 1.0)
    with pytest.raises(UserError, match="12 tokens at most"):
        policy.sample(prompts, range(3), temperature=1.0, max_new_tokens=10)


@pytest.mark.parametrize(
    "config",
    [
        BloomConfig(vocab_size=50, hidden_size=32, n_layer=2, n_head=4),
        Gemma2Config(**SIZE, num_key_value_heads=2, head_dim=8),
        Cohere2Config(**SIZE, num_key_value_heads=2, logit_scale=0.1),
    ],
    ids=["positions in the attention", "capped logits", "scaled logits"],
)
def test_models_that_would_be_computed_wrongly_are_refused(config: Any) -> None:
    with pytest.raises(UserError, match="take another model"):
        CausalPolicy(model_of(config), END).score(*rows_of(GROUPS["several"]), 1.0)


def test_the_wrapped_model_still_works_by_itself() -> None:
    policy = llama()
    ids = torch.randint(0, 50, (2, 9), generator=torch.Generator().manual_seed(0))
    mask = torch.ones_like(ids)
    mask[0, :3] = 0
    plain: Any = model_of(CONFIGS["llama"])(input_ids=ids, attention_mask=mask)
    wrapped: Any = policy.model(input_ids=ids, attention_mask=mask)
    torch.testing.assert_close(wrapped.logits, plain.logits)
