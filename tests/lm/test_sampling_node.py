"""What a node of a cluster samples, and what is refused before and on it; here without a cluster."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from orchestai.config import LoraConfig
from orchestai.lm.backends.base import SampleSettings
from orchestai.lm.backends.canary import CanaryProbe
from orchestai.lm.backends.ray_nodes import SamplingNode, SamplingSetup
from orchestai.lm.backends.transfer import ModelWeights
from orchestai.lm.causal import CausalPolicy
from support.models.fake_vllm import LORA
from support.models.language_model import tiny_model

PROMPTS = [[40, 50, 60], [40, 50, 60], [7, 8]]
SETTINGS = SampleSettings(temperature=0.8, max_new_tokens=12)
ENDS = frozenset({0})
PROBE = CanaryProbe(torch.tensor(PROMPTS[0]), SETTINGS.temperature)


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> Callable[..., SamplingNode]:
    monkeypatch.setattr(os, "environ", os.environ.copy())
    monkeypatch.chdir(Path.cwd())

    def over(base: str, lora: LoraConfig | None = LORA) -> SamplingNode:
        return SamplingNode(SamplingSetup(base, lora, "float32", None, ENDS, PROBE, 1, False, "model", Path.cwd(), {}))

    return over


@pytest.fixture
def node(opened: Callable[..., SamplingNode]) -> SamplingNode:
    """One that gets whole models."""
    return opened("", None)


async def test_a_node_writes_what_the_policy_would_with_the_weights_that_are_named(
    node: SamplingNode, tmp_path: Path
) -> None:
    learner = CausalPolicy(tiny_model(), ENDS)
    for name, scale in (("one", 1.0), ("other", 0.7), ("one", 1.0)):
        learner.model.lm_head.weight.data = tiny_model().lm_head.weight.data * scale
        if not (tmp_path / name).exists():
            ModelWeights(learner.model, main=True).write(tmp_path / name)
        share = await node.generate(tmp_path / name, PROMPTS, [1, 2, 3], SETTINGS)
        written = share.written
        own = learner.sample([*map(torch.tensor, PROMPTS)], [1, 2, 3], temperature=0.8, max_new_tokens=12)
        assert [(ids, ended) for ids, _, ended in written] == [(one.ids.tolist(), one.ended) for one in own]
        for (_, logp, _), one in zip(written, own, strict=True):
            torch.testing.assert_close(torch.tensor(logp), one.logp, atol=1e-5, rtol=0)
        prompts, seeds, settings = PROBE.request()
        proven = learner.sample(
            prompts, seeds, temperature=settings.temperature, max_new_tokens=settings.max_new_tokens
        )
        assert [ids for ids, _ in share.proof.rows] == [tuple(one.ids.tolist()) for one in proven]
        assert share.proof.writer.startswith("an actor on ")
