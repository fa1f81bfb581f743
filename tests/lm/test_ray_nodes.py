"""Copies of a model on a cluster's nodes write what the model would, under every version, and through lost nodes."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from orchestai.config import PlaceConfig, RayConfig, RaySamplingConfig
from orchestai.lm import loading, weights
from orchestai.lm.backends.base import Generates, SampleSettings
from orchestai.lm.backends.canary import Canary, CanaryProbe
from orchestai.lm.backends.synced import SyncedBackend
from orchestai.lm.backends.transfer import Folders, ModelWeights
from orchestai.lm.causal import CausalPolicy
from support.cluster.simulated import simulated_cluster
from support.models.fake_vllm import LORA
from support.models.language_model import save_tiny_model, tiny_model

pytest.importorskip("ray")
from orchestai.lm.backends.ray_nodes import RayNodes, SampledModel

pytestmark = [pytest.mark.slow, pytest.mark.timeout(600)]
PROMPTS = [torch.tensor([40, 50, 60])] * 4 + [torch.tensor([7, 8])] * 4 + [torch.tensor([9])]
SEEDS = range(9)
SETTINGS = SampleSettings(temperature=0.8, max_new_tokens=40)
SECTION = "planner.language"
PROBE = CanaryProbe(PROMPTS[0], SETTINGS.temperature)
PATIENT = PlaceConfig(ray=RayConfig(wait_s=200))


@pytest.fixture
def nodes() -> Iterator[Any]:
    with simulated_cluster(3) as cluster:
        yield cluster


def policy(folder: Path, *, adapters: bool) -> CausalPolicy:
    if not adapters:
        return CausalPolicy(tiny_model(), frozenset({0}))
    model = weights.read_without_tokenizer(str(save_tiny_model(folder / "base")), SECTION, dtype=torch.float32)
    loading.add_adapter(model, LORA)
    return CausalPolicy(model.eval(), frozenset({0}))


@torch.no_grad()
def learn(learner: CausalPolicy) -> None:
    for parameter in learner.model.parameters():
        if parameter.requires_grad:
            parameter += 0.2 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1))


def on_nodes(learner: CausalPolicy, folder: Path, *, adapters: bool = False) -> RayNodes:
    model = SampledModel(learner, "float32", LORA if adapters else None)
    return RayNodes(model, RaySamplingConfig(), PATIENT, Folders(folder, "run"), PROBE, main=True, section=SECTION)


def following(learner: CausalPolicy, backend: RayNodes) -> SyncedBackend:
    async def alone(work: Any) -> list[Any]:
        return [await work]

    canary = Canary(learner, PROBE, 0.05, SECTION, "ray", backend.engines)
    return SyncedBackend(backend, ModelWeights(learner.model, main=True), canary, alone)


async def compare(learner: CausalPolicy, backend: Generates, version: int) -> list[list[int]]:
    generation = await backend.generate(PROMPTS, SEEDS, SETTINGS)
    assert generation.policy_version == version
    own = learner.sample(PROMPTS, SEEDS, temperature=0.8, max_new_tokens=40)
    for one, other in zip(generation.completions, own, strict=True):
        assert one.ids.tolist() == other.ids.tolist()
        torch.testing.assert_close(one.logp, other.logp, atol=1e-4, rtol=0)
        assert one.ended == other.ended
        assert (one.ids.dtype, one.logp.dtype) == (torch.int64, torch.float32)
    return [one.ids.tolist() for one in generation.completions]


@pytest.mark.parametrize("adapters", [False, True], ids=["whole model", "adapters"])
async def test_nodes_write_what_the_policy_would_under_every_version(
    nodes: Any, tmp_path: Path, adapters: bool
) -> None:
    learner, folder = policy(tmp_path, adapters=adapters), tmp_path / "sync"
    backend = on_nodes(learner, folder, adapters=adapters)
    assert backend.engines == 3
    sampler = following(learner, backend)
    assert (await sampler.sync(0))["canary_gap"] < 1e-4
    before = await compare(learner, backend, 0)
    learn(learner)
    assert (await sampler.sync(5))["canary_gap"] < 1e-4
    assert await compare(learner, backend, 5) != before
    (kept,) = folder.iterdir()
    assert kept.name.endswith("-v5")
    assert (kept / "adapter_model.safetensors").exists() == adapters
    await backend.close()
    assert not list(folder.iterdir())


async def test_a_node_that_dies_loses_no_completion_and_what_replaces_it_has_the_present_weights(
    nodes: Any, tmp_path: Path
) -> None:
    learner = policy(tmp_path, adapters=False)
    backend = on_nodes(learner, tmp_path / "sync")
    await backend.sync(ModelWeights(learner.model, main=True), 0)
    await compare(learner, backend, 0)
    learn(learner)
    await backend.sync(ModelWeights(learner.model, main=True), 1)
    comparing = asyncio.ensure_future(compare(learner, backend, 1))
    await asyncio.sleep(0)
    nodes.remove_node(next(iter(nodes.worker_nodes)), allow_graceful=False)
    nodes.add_node(num_cpus=1)
    await comparing
    await compare(learner, backend, 1)
    await backend.close()
