"""Models in 4 bits are read on a CPU too, and the adapters over them learn whatever was done before."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch import Tensor

from orchestai.config import LoraConfig
from orchestai.config.agents import AgentModelConfig
from orchestai.errors import UserError
from orchestai.lm import loading
from orchestai.lm.causal import CausalPolicy
from orchestai.lm.model_keys import AGENTS
from support.models.language_model import save_tiny_model

PROMPTS = [torch.tensor([40, 50, 60]), torch.tensor([40, 50, 60]), torch.tensor([7, 8])]
WRITTEN = [torch.tensor([41, 42]), torch.tensor([43]), torch.tensor([44, 45])]


def policy(folder: Path) -> CausalPolicy:
    pytest.importorskip("bitsandbytes")
    lora = LoraConfig(rank=2)
    model, _ = loading.read_model(str(folder), AgentModelConfig(load_in_4bit=True, lora=lora), AGENTS)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        loading.add_adapter(model, lora)
    return CausalPolicy(model.eval(), frozenset({0}))


def gradients(learner: CausalPolicy) -> dict[str, Tensor]:
    learner.zero_grad()
    learner.score(PROMPTS, WRITTEN, 1.0).logp.sum().backward()
    return {name: p.grad.clone() for name, p in learner.named_parameters() if p.grad is not None}


def test_adapters_over_4_bits_learn_after_they_have_sampled(tmp_path: Path) -> None:
    """bitsandbytes packs weights for some CPUs when they are first multiplied in evaluation mode, and then no gradient
    goes through them: the adapters of lower layers would stand still from the first update on."""
    learner = policy(save_tiny_model(tmp_path))
    before = gradients(learner)
    lowest = [name for name in before if "layers.0.self_attn.q_proj.lora_B" in name]
    assert len(lowest) == 1
    assert before[lowest[0]].abs().sum() > 0
    learner.sample(PROMPTS, [1, 2, 3], temperature=1.0, max_new_tokens=4)
    with torch.no_grad():
        learner.score(PROMPTS, WRITTEN, 1.0)
    after = gradients(learner)
    assert after.keys() == before.keys() == {name for name, p in learner.named_parameters() if p.requires_grad}
    for name in before:
        torch.testing.assert_close(after[name], before[name])


def test_every_target_learns_embeddings_too_and_is_read_again(tmp_path: Path) -> None:
    lora = LoraConfig(rank=2, targets=("q_proj", "embed_tokens"))
    source = str(save_tiny_model(tmp_path / "model"))
    model, _ = loading.read_model(source, AgentModelConfig(lora=lora), AGENTS)
    loading.add_adapter(model, lora)
    loading.keep_reference(model)
    learner = CausalPolicy(model.eval(), frozenset({0}))
    of_embedding = {name for name in gradients(learner) if "lora_embedding" in name}
    assert len(of_embedding) == 2
    with torch.no_grad():
        for parameter in learner.parameters():
            parameter += parameter.requires_grad
    model.save_pretrained(tmp_path / "adapter")
    again, _ = loading.read_model(source, AgentModelConfig(lora=lora), AGENTS)
    loading.load_adapter(again, lora, tmp_path / "adapter")
    kept = dict(again.named_parameters())
    for name, parameter in model.named_parameters():
        if parameter.requires_grad:
            torch.testing.assert_close(kept[name], parameter)


@pytest.mark.parametrize("targets", [("q_proj", "k_prj"), ("norm",), ("nothing",)])
def test_targets_that_cannot_learn_are_refused(tmp_path: Path, targets: tuple[str, ...]) -> None:
    lora = LoraConfig(rank=2, targets=targets)
    model, _ = loading.read_model(str(save_tiny_model(tmp_path)), AgentModelConfig(lora=lora), AGENTS)
    with pytest.raises(UserError, match=r"lora\.targets"):
        loading.add_adapter(model, lora)


def test_weights_of_4_bits_are_few_and_frozen(tmp_path: Path) -> None:
    learner = policy(save_tiny_model(tmp_path))
    query = learner.model.get_submodule("model.layers.0.self_attn.q_proj.base_layer").weight
    assert query.numel() * query.element_size() == 32 * 32 // 2
    learned = {p.dtype for p in learner.parameters() if p.requires_grad}
    assert learned == {torch.float32}, "adapters, and nothing else"
