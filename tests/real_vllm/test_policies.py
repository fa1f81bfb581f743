"""Agents that learn apart: an adapter per role or a model per role, each sampled from its own weights by real vLLM."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import psutil
import pytest
import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

from orchestai.agents.policies import open_policies
from orchestai.agents.recipes.shorthand import load_agent_config
from orchestai.agents.registry import find, presets
from orchestai.agents.trainer import AgentTrainer
from orchestai.config.agents import AgentConfig
from orchestai.errors import UserError
from real_vllm.gaps import Gaps
from real_vllm.servers import OPTIONS
from real_vllm.test_backends import ROUNDING, client, follower, learn, policy
from support.agents import sample

CORRECTED = "training.phase2_rl.sampler_correction=token_truncate"


def configured(preset: str, policies: str, model: Path, updates: int, *words: str) -> AgentConfig:
    some = ["model=tiny", f"model.name={model}", f"agents.policies={policies}", "model.vllm.canary_tolerance=1e-2"]
    some += [f"training.phase2_rl.num_updates={updates}", "training.phase2_rl.learning_rate=1e-3", CORRECTED]
    if policies == "adapter":
        some.append("model.lora.rank=2")
    return load_agent_config("", presets()[preset], [*some, *words])


def train(config: AgentConfig, output: Path, *, resume: bool = False) -> list[dict[str, Any]]:
    """The figures of all updates."""
    summary = AgentTrainer(config=config, output_dir=output).train(resume=resume)
    assert summary.complaint == ""
    assert not list((output / "sync").iterdir()), "no weights are left behind"
    return sample.rows(output, "canary_gap")


def check(config: AgentConfig, output: Path, rows: list[dict[str, Any]], gaps: Gaps) -> None:
    """Every policy's engine had its weights under every version, and every policy learned from what it wrote."""
    roles = find(config.agents.workflow).roles
    assert len(roles) > 1
    found = [row[f"{role}/canary_gap"] for row in rows for role in roles]
    gaps(found)
    assert max(found) < ROUNDING
    for row in rows:
        assert row.get("sampler_ratio", 1) == pytest.approx(1, abs=1e-3)
    before, after = (open_policies(config, roles, checkpoint=folder) for folder in (None, output / "phase2_last"))
    for role in roles:
        learned = dict(after.learning[role].named_parameters())
        assert any(
            not learned[name].equal(value)
            for name, value in before.learning[role].named_parameters()
            if value.requires_grad
        ), f"{role} learned"
    ends = [dict(after.learning[role].named_parameters()) for role in roles[:2]]
    assert any(name not in ends[1] or not value.equal(ends[1][name]) for name, value in ends[0].items()), "apart"


def behind(url: str) -> tuple[str, ...]:
    return ("model.backend=vllm_server", f"model.vllm.base_url={url}")


@pytest.fixture
def in_process(monkeypatch: pytest.MonkeyPatch) -> tuple[str, ...]:
    """Engines that keep little, since there are several at a time."""
    monkeypatch.delenv("VLLM_CPU_KVCACHE_SPACE")
    settings = OPTIONS | {"kv_cache_memory_bytes": 128 << 20}
    options = (f"model.vllm.engine_options.{name}={str(value).lower()}" for name, value in settings.items())
    return ("model.backend=vllm", *options)


@pytest.mark.parametrize("preset", ["deepcoder", "magrpo_arxiv"])
def test_a_server_holds_an_adapter_per_role_and_a_run_goes_on(
    repository: Path,
    agents_server: str,
    taught: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    gaps: Gaps,
    preset: str,
) -> None:
    """Of agents that take turns, and of agents that act at the same moment, so that a batch holds both adapters."""
    monkeypatch.chdir(repository)
    words = behind(agents_server)
    train(configured(preset, "adapter", taught, 2, *words), tmp_path / "out")
    config = configured(preset, "adapter", taught, 3, *words)
    rows = train(config, tmp_path / "out", resume=True)
    assert [row["update"] for row in rows] == [1, 2, 3]
    check(config, tmp_path / "out", rows, gaps)


@pytest.mark.parametrize("policies", ["adapter", "separate"])
def test_an_engine_per_role_in_this_process(
    repository: Path,
    in_process: tuple[str, ...],
    taught: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    gaps: Gaps,
    policies: str,
) -> None:
    """With models of their own, one role's has a layer less, so that its engine must have loaded that one."""
    monkeypatch.chdir(repository)
    words = list(in_process)
    if policies == "separate":
        role = find("writing").roles[1]
        words.append(f"agents.models.{role}={shallower(taught, tmp_path / 'other')}")
    config = configured("magrpo_arxiv", policies, taught, 2, *words)
    rows = train(config, tmp_path / "out")
    assert [row["update"] for row in rows] == [1, 2]
    check(config, tmp_path / "out", rows, gaps)
    assert engines() == [], "they would keep their memory as long as this process lives"


def test_an_engine_that_fails_takes_those_before_it_along(
    repository: Path, in_process: tuple[str, ...], taught: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second role's model has heads that vLLM does not compute on a CPU, which it finds out by the first words."""
    monkeypatch.chdir(repository)
    narrow = f"agents.models.{find('writing').roles[1]}=data/agents/tiny"
    config = configured("magrpo_arxiv", "separate", taught, 1, *in_process, narrow)
    with pytest.raises(UserError, match=r"vLLM's engine (does not start|failed \()"):
        AgentTrainer(config=config, output_dir=tmp_path / "out").train()
    assert engines() == []


async def test_models_that_share_a_server_are_told_from_models_that_have_one_each(server: str, tmp_path: Path) -> None:
    """The first follows its own weights, until those of the second take their place."""
    one, other = policy(adapters=False), policy(adapters=False)
    learn(other)
    names = {name: client(server, tmp_path / name, adapters=False) for name in ("one", "other")}
    first, second = follower(one, names["one"]), follower(other, names["other"])
    assert (await first.sync(0))["canary_gap"] < ROUNDING
    with pytest.raises(UserError, match="its weights are stale or of another model"):
        await second.sync(0, beside=[first])
    for backend in names.values():
        await backend.close()


async def test_adapters_on_a_server_do_not_answer_for_each_other(server: str, tmp_path: Path, gaps: Gaps) -> None:
    one, other = policy(adapters=True), policy(adapters=True)
    learn(other)
    names = {name: client(server, tmp_path / name, adapters=True) for name in ("one", "other")}
    first, second = follower(one, names["one"]), follower(other, names["other"])
    found = [(await first.sync(0))["canary_gap"], (await second.sync(0, beside=[first]))["canary_gap"]]
    learn(one)
    found += [(await first.sync(1))["canary_gap"], (await second.sync(1))["canary_gap"]]
    gaps(found)
    assert max(found) < ROUNDING
    for backend in names.values():
        await backend.close()


def shallower(model: Path, folder: Path) -> Path:
    """A model without its last layer."""
    cut = AutoModelForCausalLM.from_pretrained(model, dtype=torch.float32)
    cut.model.layers = cut.model.layers[:-1]
    cut.config.num_hidden_layers -= 1
    if getattr(cut.config, "layer_types", None):
        cut.config.layer_types = cut.config.layer_types[:-1]
    cut.save_pretrained(folder)
    AutoTokenizer.from_pretrained(model).save_pretrained(folder)
    return folder


def engines() -> list[psutil.Process]:
    """Those of this process that live on half a minute later."""
    found = [child for child in psutil.Process().children() if child.name() == "VLLM::EngineCore"]
    return psutil.wait_procs(found, timeout=30)[1]
