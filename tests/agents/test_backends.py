"""Agents are sampled by whatever backend their section names, and learn what they would have learned by themselves."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from orchestai.errors import UserError
from orchestai.lm.sampling import Completion
from support.agents import sample
from support.models import fake_vllm
from support.models.language_model import save_tiny_model


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    return save_tiny_model(tmp_path_factory.mktemp("model"))


def train(output: Path, folder: Path, policies: str, **model: Any) -> list[dict[str, Any]]:
    if policies == "adapter":
        model["lora"] = fake_vllm.LORA.model_dump()
    config = sample.settings(policies=policies, model={"name": str(folder), **model})
    sample.trainer(output, config).train()
    return [sample.timeless(row) for row in sample.rows(output)]


@pytest.mark.parametrize(
    ("backend", "policies"), [pytest.param("vllm", "shared", marks=pytest.mark.slow), ("vllm_server", "adapter")]
)
def test_an_engine_follows_every_update_of_every_policy(tmp_path, folder, monkeypatch, backend, policies):
    """The engine computes as the model does, so the rewards are those of a run in which the model samples itself."""
    own = train(tmp_path / "own", folder, policies)
    engine = fake_vllm.Engine()
    for name, module in fake_vllm.module(engine).items():
        monkeypatch.setitem(sys.modules, name, module)
    with fake_vllm.serving(engine) as url:
        vllm = {"base_url": url, "canary_tolerance": 1e-3}
        rows = train(tmp_path / "engine", folder, policies, backend=backend, vllm=vllm)
    assert len(rows) == len(own) == 2
    for row, other in zip(rows, own, strict=True):
        assert row["reward"] == pytest.approx(other["reward"])
        assert row["grad_norm"] > 0
        assert row["sampler_ratio"] == pytest.approx(1, abs=1e-3), "corrected, unless told otherwise"
        gaps = [row[f"{role}/canary_gap"] for role in ("caller", "answerer")] if policies == "adapter" else []
        assert all(gap < 1e-4 for gap in [row["canary_gap"], *gaps])
    if policies == "shared":
        assert engine.calls.count("reload") == engine.calls.count("reset") == 6
    else:
        assert "reload" not in engine.calls
    assert not list((tmp_path / "engine" / "sync").iterdir()), "no weights are left behind"


def engine_modules(monkeypatch: pytest.MonkeyPatch, *engines: fake_vllm.Engine) -> None:
    """A vllm whose first LLM is the first of the engines, and so on."""
    for name, module in fake_vllm.module(engines[0]).items():
        monkeypatch.setitem(sys.modules, name, module)
    opening = iter([fake_vllm.module(engine)["vllm"].LLM for engine in engines])
    monkeypatch.setattr(sys.modules["vllm"], "LLM", lambda **arguments: next(opening)(**arguments))


def test_a_policy_that_is_answered_with_anothers_weights_is_noticed(tmp_path, folder, monkeypatch):
    """Each follows when it is asked right after its handover; then the next one's takes its place."""
    engine = fake_vllm.Engine()
    engine_modules(monkeypatch, engine, engine)
    with pytest.raises(UserError, match="stale or of another model"):
        train(tmp_path / "whole", folder, "separate", backend="vllm", vllm={"canary_tolerance": 1e-3})
    assert engine.calls.count("close") == 2
    with fake_vllm.serving(LastAdapter()) as url, pytest.raises(UserError, match="stale or of another model"):
        vllm = {"base_url": url, "canary_tolerance": 1e-3}
        train(tmp_path / "adapters", folder, "adapter", backend="vllm_server", vllm=vllm)


class LastAdapter(fake_vllm.Engine):
    """Answers with the adapter that came last, whichever it is asked for."""

    def generate(self, prompt: list[int], seed: int, temperature: float, length: int, adapter: str = "") -> Completion:
        last = list(self.adapters)[-1] if adapter else ""
        return super().generate(prompt, seed, temperature, length, last)
