"""Kinds of workers: what each is to planners, and what is said of one that nobody knows."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from orchestai.config import WorkersConfig
from orchestai.sandbox import Sandbox
from orchestai.workers.base import Request
from orchestai.workers.pool import WorkerPool, worker_cards


def pool_of(**workers: dict[str, Any]) -> WorkersConfig:
    models = {"m": {"kind": "openai_api", "name": "m", "base_url": "http://127.0.0.1:9/v1"}}
    return WorkersConfig(models=models, pool=workers, cache_dir=None)


def test_planners_know_of_a_kind_whether_it_asks_a_language_model() -> None:
    """The one bit of a card that weights have learned from; more kinds must not change what it means."""
    config = pool_of(
        asked={"kind": "model", "model": "m", "card": "c", "price_per_mtok_in_usd": 1.0},
        sums={"kind": "tool", "tool": "calculator", "card": "c", "price_per_call_usd": 0.5},
    )
    assert [(card.kind, card.price_usd) for card in worker_cards(config)] == [
        ("model", pytest.approx(150e-6)),
        ("tool", 0.5),
    ]


async def test_a_module_may_hold_a_whole_kind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A class or a function sees its card and options alone; what asks a configured model needs more."""
    (tmp_path / "kinds_of_mine.py").write_text(
        "from orchestai.workers.tools import ToolWorker\n"
        "from orchestai.workers.kinds.worker_kind import WorkerKind\n"
        "def build(card, config, context):\n"
        "    return ToolWorker(card, lambda request: ', '.join(context.config.models), 0.0)\n"
        "KIND = WorkerKind(build, asks_model=True)\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    config = pool_of(mine={"kind": "kinds_of_mine:KIND", "card": "c"})
    assert [card.kind for card in worker_cards(config)] == ["model"]
    with Sandbox(workers=1) as sandbox:
        async with WorkerPool.from_config(config, sandbox) as pool:
            assert (await pool.answer("mine", Request("anything"))).text == "m"
