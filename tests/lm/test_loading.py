"""Models in 4 bits are read on a CPU too, and the adapters over them learn whatever was done before."""

from __future__ import annotations

import logging
import sys
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


@pytest.mark.slow
def test_the_packaged_model_is_not_refused_in_4_bits(tmp_path: Path) -> None:
    """Its rounding, on tokens that stand for no text, was taken for a model that reads packed rows otherwise (0.24)."""
    source = loading.find_source("smollm2-135m", {}, tmp_path, AGENTS.name)
    learner = policy(Path(source))
    assert learner.score(PROMPTS, WRITTEN, 1.0).logp.isfinite().all()


def test_weights_of_4_bits_are_few_and_frozen(tmp_path: Path) -> None:
    learner = policy(save_tiny_model(tmp_path))
    query = learner.model.get_submodule("model.layers.0.self_attn.q_proj.base_layer").weight
    assert query.numel() * query.element_size() == 32 * 32 // 2
    learned = {p.dtype for p in learner.parameters() if p.requires_grad}
    assert learned == {torch.float32}, "adapters, and nothing else"


def test_4_bits_without_their_package_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "bitsandbytes", None)
    with pytest.raises(UserError, match=r"bitsandbytes is not installed; run: pip install 'orchestai\[gpu\]'"):
        loading.read_model(str(tmp_path), AgentModelConfig(load_in_4bit=True, lora=LoraConfig()), AGENTS)


def test_each_process_loads_onto_the_gpu_that_it_will_compute_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Phase 2 loads before accelerate chooses; all processes took the first GPU once."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: True)
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    found = []
    for rank in ("0", "1", "2"):
        monkeypatch.setenv("LOCAL_RANK", rank)
        found.append(loading.device_of_process().index)
    assert found == [0, 1, 0]


def test_of_what_bitsandbytes_says_the_advice_alone_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    """peft imports it in every run with adapters, 4 bits or not."""
    logger = logging.getLogger("bitsandbytes.backends.cpu.ops")
    with loading.without_notice_of_kernel():
        logger.warning("Failed to load CPU gemm_4bit_forward from kernels-community: %s.", "none")
        logger.warning("the library is broken")
    logger.warning("gemm_4bit_forward broke")
    assert [record.getMessage() for record in caplog.records] == ["the library is broken", "gemm_4bit_forward broke"]
