"""Orchestrators that ask orchestrators: the inner one spends what the outer one reserved, and recursion ends."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from orchestai.config import Contract, load_config
from orchestai.orchestrator import Orchestrator
from orchestai.workers.pool import worker_cards

OWN = """
from orchestai.workers.base import Answer

def reply(text):
    return Answer(text="I heard it" if "Say it" in text else text, prompt_tokens=7, completion_tokens=3, cost_usd=0.25)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "inner_workers.py").write_text(OWN)
    monkeypatch.chdir(tmp_path)
    reply = {"kind": "function", "function": "inner_workers:reply", "card": "replies", "price_per_call_usd": 0.25}
    write(tmp_path / "inner.yaml", reply=reply)
    return tmp_path


def write(path: Path, **pool: dict[str, Any]) -> None:
    sections = {"workers": {"pool": pool, "cache_dir": None}, "sandbox": {"level": "process"}}
    path.write_text(json.dumps({**sections, "execution": {"assembler": "sink"}}))


def nested(config: str, price: float, **more: Any) -> dict[str, Any]:
    return {
        "kind": "orchestrator",
        "orchestrator": {"config": config, **more},
        "card": "asks others",
        "price_per_call_usd": price,
    }


async def test_a_run_of_a_run_spends_what_was_reserved_for_it(folder: Path) -> None:
    write(folder / "outer.yaml", team=nested("inner.yaml", 0.4))
    config = load_config(folder / "outer.yaml")
    assert [(card.kind, card.price_usd) for card in worker_cards(config.workers)] == [("model", 0.4)]
    async with Orchestrator.open(None, config, log=None) as outer:
        result = await outer.run("Say it", Contract(max_cost_usd=0.4), answer="text")
    assert result.answer == "I heard it"
    assert (result.receipt.reserved_usd, result.receipt.spent_usd) == (0.4, 0.25)
    (attempt,) = result.execution.results[0].attempts
    assert (attempt.prompt_tokens, attempt.completion_tokens) == (7, 3)


async def test_a_configuration_that_names_itself_ends_at_its_depth(folder: Path) -> None:
    write(folder / "self.yaml", team=nested("self.yaml", 0.1))
    async with Orchestrator.open(None, folder / "self.yaml", log=None) as outer:
        result = await outer.run("Say it", answer="text")
    assert result.receipt.status == "failed"
    assert "2 orchestrators" in (result.execution.error or "")
