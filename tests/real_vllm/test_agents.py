"""One preset of each family of agents learns from what a server of real vLLM writes."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestai.agents.recipes import load_agent_config
from orchestai.agents.registry import presets
from orchestai.agents.trainer import AgentTrainer
from real_vllm.gaps import Gaps
from support.agents import sample

PRESETS = ("deep_research", "deepcoder", "magrpo_arxiv_shared", "math_tool", "search", "swe", "tool_use_small")


@pytest.mark.parametrize("preset", PRESETS)
def test_a_preset_learns(
    repository: Path,
    agents_server: str,
    taught: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    gaps: Gaps,
    preset: str,
) -> None:
    """Three updates, each with the weights of the one before."""
    monkeypatch.chdir(repository)
    words = ["model=tiny", f"model.name={taught}", "training.phase2_rl.num_updates=3"]
    words += ["use_vllm=true", f"vllm_server_base_url={agents_server}", "model.vllm.canary_tolerance=1e-2"]
    config = load_agent_config("", presets()[preset], words)
    assert config.model.backend == "vllm_server"
    summary = AgentTrainer(config=config, output_dir=tmp_path / "out").train()
    assert (summary.updates, summary.complaint) == (3, "")
    rows = sample.rows(tmp_path / "out", "canary_gap")
    assert [row["update"] for row in rows] == [1, 2, 3]
    assert any("loss" in row for row in rows)
    for row in rows:
        assert row["canary_gap"] < 1e-4
        assert row.get("sampler_ratio", 1) == pytest.approx(1, abs=1e-3)
    gaps([row["canary_gap"] for row in rows])
