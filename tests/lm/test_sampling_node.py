"""What a node of a cluster samples, and what is refused before and on it; here without a cluster."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from orchestai.config import LoraConfig, PlaceConfig, RayConfig, RaySamplingConfig
from orchestai.errors import UserError
from orchestai.lm import loading, weights
from orchestai.lm.backends.base import SampleSettings
from orchestai.lm.backends.canary import CanaryProbe
from orchestai.lm.backends.sampling_node import SamplingNode, SamplingSetup
from orchestai.lm.backends.weights import Folders, ModelWeights
from orchestai.lm.causal import CausalPolicy
from support.models.fake_vllm import LORA
from support.models.language_model import save_tiny_model, tiny_model

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


async def test_a_folder_that_a_node_does_not_see_is_named_with_the_remedy(node: SamplingNode, tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"model\.ray\.sync_dir: .* does not see .*set it to a folder that all nodes"):
        await node.generate(tmp_path / "none", PROMPTS, [1, 2, 3], SETTINGS)


async def test_a_node_converts_the_packaged_model_under_adapters_where_it_does_not_see_the_folder(
    opened: Callable[..., SamplingNode], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On another machine the folder into which the learning process converted it is not there."""
    converted = save_tiny_model(tmp_path / "here")
    monkeypatch.setattr(weights, "_converted_smollm2", lambda cache_dir: converted)
    model = weights.read_without_tokenizer(str(converted), "model", dtype=torch.float32)
    loading.add_adapter(model, LORA)
    ModelWeights(model, main=True).write(tmp_path / "adapter")
    there = tmp_path / "there" / weights._converted_folder(Path())
    with pytest.raises(UserError, match="no folder"):
        one_of_its_own = f"{there}-finetuned"
        await opened(one_of_its_own).generate(tmp_path / "adapter", PROMPTS[:1], [1], SETTINGS)
    node = opened(str(there))
    share = await node.generate(tmp_path / "adapter", PROMPTS[:1], [1], SETTINGS)
    (own,) = CausalPolicy(model.eval(), ENDS).sample(
        [torch.tensor(PROMPTS[0])], [1], temperature=0.8, max_new_tokens=12
    )
    assert share.written[0][0] == own.ids.tolist()


async def test_a_node_without_the_model_under_adapters_is_named(
    opened: Callable[..., SamplingNode], tmp_path: Path
) -> None:
    with pytest.raises(
        UserError, match=r"model\.backend: no folder .*/none; .* so says .*process \d+\), and every node"
    ):
        await opened(str(tmp_path / "none")).generate(tmp_path, PROMPTS, [1, 2, 3], SETTINGS)


def test_what_could_not_sample_is_refused_before_a_cluster_is_joined(tmp_path: Path) -> None:
    pytest.importorskip("ray")
    from orchestai.lm.backends.ray_nodes import RayNodes, SampledModel

    learner, folders = CausalPolicy(tiny_model(), ENDS), Folders(tmp_path, "run")

    def begin(place: PlaceConfig, adapters: bool = False) -> None:
        model = SampledModel(learner, "float32", LORA if adapters else None)
        RayNodes(model, RaySamplingConfig(), place, folders, PROBE, main=True, section="model")

    with pytest.raises(UserError, match=r"set execution\.ray\.num_workers and model\.ray\.num_workers"):
        begin(PlaceConfig(backend="ray"))
    with pytest.raises(UserError, match="made anew in every process"):
        begin(PlaceConfig(), adapters=True)
    with pytest.raises(UserError, match=r"execution\.ray\.env: NO_SUCH_KEY is not set here"):
        begin(PlaceConfig(ray=RayConfig(env=("NO_SUCH_KEY",))))
