"""Phase 2 of a planner whose plans real vLLM writes."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest

from orchestai.config import Config
from orchestai.training.rl.setup import train
from real_vllm.gaps import Gaps
from real_vllm.servers import OPTIONS
from support.training import language_phase2

LORA = {"rank": 2}


@pytest.fixture(autouse=True)
def _plans_from_noise(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orchestai.planner.language.planner.read_plan", language_phase2.read_as_a_choice)


def settings(
    folder: Path, model: Path, language: dict[str, Any], lora: dict[str, int] | None = None, **phase2: Any
) -> Config:
    """Two updates of two tasks, eight plans each."""
    usual = {"num_generations": 8, "num_episodes": 4, "tasks_per_update": 2, "temperature": 1.5, "learning_rate": 1e-3}
    values = language_phase2.config(folder, lora, **{**usual, **phase2}).model_dump()
    own = values["planner"]["language"] | {"model": str(model)} | language
    return Config(**values | {"planner": values["planner"] | {"language": own}})


def behind(url: str) -> dict[str, Any]:
    return {"backend": "vllm_server", "vllm": {"base_url": url, "canary_tolerance": 1e-2}}


def learn(config: Config, output: Path, *, resume: bool = False) -> list[dict[str, Any]]:
    asyncio.run(train(config, checkpoint=Path("base"), output_dir=output, resume=resume))
    rows = [json.loads(line) for line in (output / "phase2_metrics.jsonl").read_text().splitlines()]
    return [row for row in rows if "loss" in row]


def check(rows: list[dict[str, Any]], gaps: Gaps) -> None:
    assert [row["update"] for row in rows] == list(range(1, len(rows) + 1))
    for row in rows:
        assert row["canary_gap"] < 1e-4
        assert row["sampler_ratio"] == pytest.approx(1, abs=1e-3)
        assert row["grad_norm"] > 0
    gaps([row["canary_gap"] for row in rows])


@pytest.mark.parametrize(
    ("lora", "phase2"),
    [
        (None, {}),
        (LORA, {"kl_coef": 0.1}),
        (None, {"algorithm": "PPO", "num_minibatches": 2}),
        (LORA, {"algorithm": "PPO"}),
    ],
    ids=["GRPO, whole", "GRPO, adapters", "PPO, whole", "PPO, adapters"],
)
def test_a_server_writes_the_plans(server: str, tied: Path, tmp_path: Path, gaps: Gaps, lora: Any, phase2: Any) -> None:
    rows = learn(settings(tmp_path, tied, behind(server), lora, **phase2), tmp_path / "out")
    assert len(rows) == 2
    check(rows, gaps)


@pytest.mark.parametrize(
    ("lora", "phase2"),
    [(LORA, {}), (None, {"algorithm": "PPO", "num_minibatches": 2})],
    ids=["GRPO, adapters", "PPO, whole"],
)
def test_an_engine_in_this_process_writes_the_plans(
    tied: Path, tmp_path: Path, gaps: Gaps, lora: Any, phase2: Any
) -> None:
    vllm = {"engine_options": OPTIONS, "canary_tolerance": 1e-2}
    rows = learn(settings(tmp_path, tied, {"backend": "vllm", "vllm": vllm}, lora, **phase2), tmp_path / "out")
    assert len(rows) == 2
    check(rows, gaps)


def test_a_run_goes_on_where_it_ended(server: str, tied: Path, tmp_path: Path, gaps: Gaps) -> None:
    """The server has other weights by then: those of the end, or of another run."""
    learn(settings(tmp_path, tied, behind(server)), tmp_path / "out")
    learn(settings(tmp_path, tied, behind(server), learning_rate=1e-2), tmp_path / "other")
    rows = learn(settings(tmp_path, tied, behind(server), num_episodes=8), tmp_path / "out", resume=True)
    assert len(rows) == 4
    check(rows, gaps)
