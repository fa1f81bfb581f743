"""Engines that write for the policy: what they send is what it would have written, and weights that are not its own
are found out. vLLM itself is not here; `fake_vllm` does what it does at its borders."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import torch

from orchestai.config import VllmConfig
from orchestai.errors import UserError
from orchestai.lm import loading
from orchestai.lm.backends.base import Backend, Folders, ModelWeights, SampleSettings
from orchestai.lm.backends.canary import Canary, CanaryProbe
from orchestai.lm.backends.synced import SyncedBackend
from orchestai.lm.backends.vllm_engine import EngineModel, VllmEngine
from orchestai.lm.backends.vllm_server import VllmServer
from orchestai.lm.causal import CausalPolicy
from support.models import fake_vllm
from support.models.fake_vllm import LORA, Engine
from support.models.language_model import tiny_model

PROMPTS = [torch.tensor([40, 50, 60]), torch.tensor([40, 50, 60]), torch.tensor([7, 8])]
SEEDS = [1, 2, 3]
SETTINGS = SampleSettings(temperature=0.8, max_new_tokens=12)
ENDS = frozenset({0})
SECTION = "planner.language"
PROBE = CanaryProbe(PROMPTS[0], SETTINGS.temperature)


def policy(*, adapters: bool) -> CausalPolicy:
    model = tiny_model()
    if adapters:
        loading.add_adapter(model, LORA)
    return CausalPolicy(model.eval(), ENDS)


@torch.no_grad()
def learn(learner: CausalPolicy) -> None:
    for parameter in learner.model.parameters():
        if parameter.requires_grad:
            parameter += 0.2 * torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1))


@asynccontextmanager
async def opened(kind: str, engine: Engine, folder: Path, adapters: bool, patch: Any) -> AsyncIterator[Backend]:
    folders = Folders(folder, "run")
    if kind == "server":
        with fake_vllm.serving(engine) as url:
            server = VllmServer(
                VllmConfig(base_url=url), folders, adapters=adapters, end_ids=ENDS, main=True, section=SECTION
            )
            yield server
            await server.close()
    else:
        for name, module in fake_vllm.module(engine).items():
            patch.setitem(sys.modules, name, module)
        lora = LORA if adapters else None
        served = VllmEngine(
            EngineModel("base", "float32", lora, ENDS, 64),
            VllmConfig(),
            folders,
            processes=1,
            section=SECTION,
        )
        yield served
        await served.close()


async def alone(work: Awaitable[Any]) -> list[Any]:
    return [await work]


def follower(learner: CausalPolicy, backend: Backend, tolerance: float = 0.05) -> SyncedBackend:
    canary = Canary(learner, PROBE, tolerance, SECTION)
    return SyncedBackend(backend, ModelWeights(learner.model, main=True), canary, alone)


async def compare(learner: CausalPolicy, backend: Backend, version: int) -> None:
    """The backend writes what the policy would write itself, with the same log-probabilities."""
    generation = await backend.generate(PROMPTS, SEEDS, SETTINGS)
    assert generation.policy_version == version
    own = learner.sample(PROMPTS, SEEDS, temperature=0.8, max_new_tokens=12)
    for one, other in zip(generation.completions, own, strict=True):
        assert one.ids.tolist() == other.ids.tolist()
        torch.testing.assert_close(one.logp, other.logp, atol=1e-5, rtol=0)
        assert one.ended == other.ended
        assert (one.ids.dtype, one.logp.dtype) == (torch.int64, torch.float32)


@pytest.mark.parametrize("adapters", [False, True], ids=["whole model", "adapters"])
@pytest.mark.parametrize("kind", ["server", "in process"])
async def test_an_engine_writes_what_the_policy_would_under_every_version(kind, adapters, tmp_path, monkeypatch):
    learner, engine = policy(adapters=adapters), Engine()
    async with opened(kind, engine, tmp_path, adapters, monkeypatch) as backend:
        sampler = follower(learner, backend)
        assert (await sampler.sync(0))["canary_gap"] < 1e-5
        await compare(learner, backend, 0)
        before = await backend.generate(PROMPTS, SEEDS, SETTINGS)
        learn(learner)
        assert (await sampler.sync(5))["canary_gap"] < 1e-5
        await compare(learner, backend, 5)
        after = await backend.generate(PROMPTS, SEEDS, SETTINGS)
        assert any(not a.logp.equal(b.logp) for a, b in zip(before.completions, after.completions, strict=True))
        (kept,) = tmp_path.iterdir()
        parts = 1 if adapters else 2  # a model that learns whole is disturbed at both ends
        assert kept.name == f"orchestai-run-{3 + parts}-v5", "true, disturbed and true at the start, then once"
        if adapters:
            assert "reload" not in engine.calls, "the model under the adapters stays as it is"
            assert {file.name for file in kept.iterdir()} >= {"adapter_model.safetensors", "adapter_config.json"}
            assert not (kept / "model.safetensors").exists()
            assert kind == "in process" or list(engine.adapters) == [kept.name]
        else:
            assert engine.calls.count("reload") == engine.calls.count("reset") == 5
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("fault", "adapters"), [("deaf", False), ("deaf", True), ("forgetless", False), ("hot", False), ("hot", True)]
)
async def test_an_engine_that_does_not_follow_is_found_out_before_anything_is_sampled(
    fault, adapters, tmp_path, monkeypatch
):
    """Even where its weights happen to be right at first, as after a start from the same checkpoint."""
    learner = policy(adapters=adapters)
    before = [parameter.detach().clone() for parameter in learner.model.parameters()]
    async with opened("server", Engine(fault), tmp_path, adapters, monkeypatch) as backend:
        with pytest.raises(UserError, match="stale"):
            await follower(learner, backend).sync(0)
    assert all(a.equal(b) for a, b in zip(before, learner.model.parameters(), strict=True)), "nothing stays disturbed"


async def test_an_engine_that_ceases_to_follow_is_found_out(tmp_path, monkeypatch):
    learner, engine = policy(adapters=False), Engine()
    async with opened("in process", engine, tmp_path, False, monkeypatch) as backend:
        sampler = follower(learner, backend)
        await sampler.sync(0)
        learn(learner)
        engine.faults.add("deaf")
        with pytest.raises(UserError, match=r"nats per token apart.*canary_tolerance=0\.05"):
            await sampler.sync(1)


def test_two_requests_of_one_batch_do_not_share_their_random_numbers():
    """vLLM seeds a request, not a row: rows with one prompt must go apart."""
    with fake_vllm.serving(Engine()) as url:

        async def ask() -> list[list[int]]:
            server = VllmServer(
                VllmConfig(base_url=url),
                Folders(Path("."), "r"),
                adapters=False,
                end_ids=ENDS,
                main=True,
                section=SECTION,
            )
            found = await server.generate([PROMPTS[0]] * 4, range(4), SETTINGS)
            await server.close()
            return [one.ids.tolist() for one in found.completions]

        assert len({tuple(ids) for ids in asyncio.run(ask())}) == 4
