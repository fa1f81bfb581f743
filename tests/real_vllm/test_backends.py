"""Real vLLM: it writes what the policy would have written under every version, and stale weights are noticed."""

from __future__ import annotations

from collections.abc import Awaitable
from pathlib import Path
from typing import Any

import psutil
import pytest
import torch

from orchestai.config import LoraConfig, VllmConfig
from orchestai.errors import UserError
from orchestai.lm import loading
from orchestai.lm.backends.base import Backend, Folders, ModelWeights, SampleSettings
from orchestai.lm.backends.canary import Canary, CanaryProbe
from orchestai.lm.backends.synced import SyncedBackend
from orchestai.lm.backends.vllm_engine import EngineModel, VllmEngine
from orchestai.lm.backends.vllm_server import VllmServer
from orchestai.lm.causal import CausalPolicy
from real_vllm.gaps import Gaps
from real_vllm.servers import CONTEXT, OPTIONS, end, make_model, serving

PROMPTS = [torch.tensor([40, 50, 60]), torch.tensor([40, 50, 60]), torch.tensor([7, 8])]
SEEDS = [1, 2, 2**62 + 3]
SETTINGS = SampleSettings(temperature=0.8, max_new_tokens=12)
ENDS = frozenset({0})
LORA = LoraConfig(rank=2, targets=("q_proj", "v_proj"))
SECTION = "planner.language"
ROUNDING = 1e-4
"""Nats per token by which two float32 computations of one model differ at most; they were 2e-6 to 8e-6 apart."""


def policy(*, adapters: bool, tied: bool = True) -> CausalPolicy:
    model = make_model(tied=tied)
    if adapters:
        loading.add_adapter(model, LORA)
    return CausalPolicy(model.eval(), ENDS)


@torch.no_grad()
def learn(learner: CausalPolicy) -> None:
    """As large a step as many updates together."""
    for parameter in learner.model.parameters():
        if parameter.requires_grad:
            noise = torch.randn(parameter.shape, generator=torch.Generator().manual_seed(1))
            parameter += 0.1 * noise.to(parameter.device)


async def alone(work: Awaitable[Any]) -> list[Any]:
    return [await work]


def follower(learner: CausalPolicy, backend: Backend) -> SyncedBackend:
    canary = Canary(learner, CanaryProbe(PROMPTS[0], SETTINGS.temperature), 0.01, SECTION)
    return SyncedBackend(backend, ModelWeights(learner.model, main=True), canary, alone)


def client(url: str, folder: Path, *, adapters: bool) -> VllmServer:
    config = VllmConfig(base_url=url)
    folders = Folders(folder, folder.name)
    return VllmServer(config, folders, adapters=adapters, end_ids=ENDS, main=True, section=SECTION)


async def check(learner: CausalPolicy, backend: Backend) -> list[float]:
    """Groups, seeds, versions, limits and handovers: all that one engine is to do, since it starts slowly.

    Returns:
        the distances of the canary, at first and after a step.
    """
    sampler = follower(learner, backend)
    gaps = [(await sampler.sync(0))["canary_gap"]]
    first = await backend.generate(PROMPTS, SEEDS, SETTINGS)
    again = await backend.generate(PROMPTS, SEEDS, SETTINGS)
    assert first.policy_version == again.policy_version == 0
    for one, other in zip(first.completions, again.completions, strict=True):
        assert one.ids.equal(other.ids), "the same seed gives the same completion"
    group = await backend.generate([PROMPTS[0]] * 4, range(4), SETTINGS)
    assert len({tuple(one.ids.tolist()) for one in group.completions}) == 4, "rows with one prompt go apart"

    learn(learner)
    gaps.append((await sampler.sync(5))["canary_gap"])
    after = await backend.generate(PROMPTS, SEEDS, SETTINGS)
    assert after.policy_version == 5
    with torch.no_grad():
        own = learner.score(PROMPTS, [one.ids for one in after.completions], SETTINGS.temperature).logp
    for row, one, before in zip(own, after.completions, first.completions, strict=True):
        torch.testing.assert_close(row[: len(one.ids)].cpu(), one.logp, atol=ROUNDING, rtol=0)
        assert len(one.logp) != len(before.logp) or not torch.allclose(one.logp, before.logp, atol=ROUNDING)
    assert max(gaps) < ROUNDING, gaps

    full = torch.arange(CONTEXT - 4) % 90 + 5
    (cut,) = (await backend.generate([full], [1], SampleSettings(0.8, 64))).completions
    assert len(cut.ids) == 4 or cut.ended, "it stops where the context does, as the policy itself"
    greedy = SampleSettings(0.0, 8)
    (engine,) = (await backend.generate([PROMPTS[0]], [1], greedy)).completions
    (mine,) = learner.sample([PROMPTS[0]], [1], temperature=0.0, max_new_tokens=8)
    assert engine.ids.equal(mine.ids)
    return gaps


@pytest.mark.parametrize("adapters", [False, True], ids=["whole model", "adapters"])
async def test_a_server_follows(server: str, tmp_path: Path, gaps: Gaps, adapters: bool) -> None:
    backend = client(server, tmp_path, adapters=adapters)
    gaps(await check(policy(adapters=adapters), backend))
    await backend.close()


@pytest.mark.parametrize("adapters", [False, True], ids=["whole model", "adapters"])
async def test_an_engine_in_this_process_follows(tied: Path, tmp_path: Path, gaps: Gaps, adapters: bool) -> None:
    """Adapters of rank 2, which vLLM does not know."""
    model = EngineModel(str(tied), "float32", LORA if adapters else None, ENDS, CONTEXT)
    config = VllmConfig(engine_options=OPTIONS)
    backend = VllmEngine(model, config, Folders(tmp_path, "run"), processes=1, section=SECTION)
    try:
        gaps(await check(policy(adapters=adapters), backend))
        engine = [child for child in psutil.Process().children() if child.name() == "VLLM::EngineCore"]
    finally:
        await backend.close()
    assert len(engine) == 1
    assert psutil.wait_procs(engine, timeout=30)[1] == [], "it would keep its memory as long as this process lives"


async def test_a_tied_output_layer_that_stays_stale_is_noticed(plain_server: str, tmp_path: Path) -> None:
    """On a CPU, `reload_weights` alone leaves it as it was; the workers of `vllm_worker` renew it."""
    backend = client(plain_server, tmp_path, adapters=False)
    with pytest.raises(UserError, match="its weights are stale"):
        await follower(policy(adapters=False), backend).sync(0)
    await backend.close()


async def test_a_server_without_dev_mode_and_one_that_dies_are_told(untied: Path, tmp_path: Path) -> None:
    with serving(untied, log=tmp_path / "log", dev_mode=False) as (url, process):
        backend = client(url, tmp_path / "run", adapters=False)
        with pytest.raises(UserError, match=r"HTTP 404.*docs/machines/rollouts\.md"):
            await follower(policy(adapters=False, tied=False), backend).sync(0)
        assert len((await backend.generate(PROMPTS, SEEDS, SETTINGS)).completions) == 3, "its own weights still write"
        end(process)
        with pytest.raises(UserError, match=r"no completion .*is the server running"):
            await backend.generate(PROMPTS, SEEDS, SETTINGS)
        await backend.close()


def test_an_option_that_vllm_does_not_know_is_told(tied: Path, tmp_path: Path) -> None:
    model = EngineModel(str(tied), "float32", None, ENDS, CONTEXT)
    config = VllmConfig(engine_options={"max_num_tokens": 5})
    with pytest.raises(UserError, match=r"engine does not start.*max_num_tokens"):
        VllmEngine(model, config, Folders(tmp_path, "run"), processes=1, section=SECTION)
