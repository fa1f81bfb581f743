"""Phase 2 of a language model whose plans a server writes, and phase 2 from a recording."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest
from accelerate import PartialState

from orchestai.config import Config
from orchestai.errors import UserError
from orchestai.planner.base import Plan
from orchestai.planner.checkpoint import save_planner
from orchestai.planner.language.planner import LanguagePlanner
from orchestai.training.rl.setup import train
from orchestai.types import TokenDecisions
from orchestai.workers.pool import worker_cards
from orchestai.workflow import Subtask, Workflow
from support.models import fake_vllm
from support.models.language_model import tiny_model, tiny_tokenizer
from support.repository import importing
from support.training.phase2 import configuration

CLOCK = ("seconds", "slots_per_second")


def settings(folder: Path, language: dict, **phase2) -> Config:
    base = configuration(folder, num_generations=16, num_episodes=4, learning_rate=1e-3, **phase2).model_dump()
    own = {"model": "tiny", "describe": False, "max_prompt_tokens": 200, "max_new_tokens": 6, **language}
    return Config(**base | {"planner": base["planner"] | {"kind": "language", "language": own}})


def read(self, instruction, prompt, completion, *, sampled):
    """Whom a plan asks depends on its first letter, since a random model cannot write JSON; of sixteen some differ."""
    worker = ("stdlib-search", "calculator")[int(completion.ids[0]) % 2]
    workflow = Workflow([Subtask(id="1", instruction=instruction, task_type="integer", worker=worker)])
    return Plan(workflow, True, TokenDecisions(prompt, completion.ids), completion.logp if sampled else None)


@pytest.fixture
def checkpoint(tmp_path, monkeypatch) -> Path:
    monkeypatch.setattr(LanguagePlanner, "read", read)
    config = settings(tmp_path, {})
    planner = LanguagePlanner(config.planner, worker_cards(config.workers), tiny_model(), tiny_tokenizer())
    save_planner(tmp_path / "phase1_best.pth", planner, config)
    return tmp_path / "phase1_best.pth"


def run(config: Config, checkpoint: Path, output: Path) -> list[dict]:
    asyncio.run(train(config, checkpoint=checkpoint, output_dir=output))
    rows = [json.loads(line) for line in (output / "phase2_metrics.jsonl").read_text().splitlines()]
    return [{key: value for key, value in row.items() if not key.startswith(CLOCK)} for row in rows]


def test_a_server_writes_the_plans_with_the_weights_of_each_update(checkpoint, tmp_path):
    """The engine computes as the planner does, so the corrections are 1: no row was written by other weights."""
    with fake_vllm.serving(engine := fake_vllm.Engine()) as url:
        language = {"backend": "vllm_server", "vllm": {"base_url": url, "canary_tolerance": 1e-3}}
        config = settings(tmp_path, language)
        assert config.training.phase2_rl.sampler_correction == "token_truncate"
        rows = [row for row in run(config, checkpoint, tmp_path / "out") if "reward" in row]
    assert len(rows) == 2
    for row in rows:
        assert row["canary_gap"] < 1e-4
        assert row["grad_norm"] > 0
        assert row["sampler_ratio"] == pytest.approx(1, abs=1e-4)
    assert engine.calls == ["reload", "reset"] * 6


@pytest.mark.slow
@pytest.mark.distributed
def test_two_processes_share_a_server_and_its_failure(checkpoint, tmp_path):
    """One hands the weights over, both sample from them; and both are told that it does not follow."""
    launch = [sys.executable, "-m", "accelerate.commands.launch", "--multi_gpu", "--num_processes", "2"]
    launch += ["--num_machines", "1", "--mixed_precision", "no", "--dynamo_backend", "no", "--main_process_port", "0"]
    script = [__file__, str(tmp_path)]
    with fake_vllm.serving(fake_vllm.Engine()) as url, fake_vllm.serving(fake_vllm.Engine("deaf")) as deaf:
        done = subprocess.run(
            [*launch, *script, url, deaf], env=importing(), timeout=170, capture_output=True, text=True
        )
    assert done.returncode == 0, done.stderr[-12000:]
    lines = (tmp_path / "out" / "phase2_metrics.jsonl").read_text().splitlines()
    rows = [row for row in map(json.loads, lines) if "reward" in row]
    assert len(rows) == 2
    assert all(row["sampler_ratio"] == pytest.approx(1, abs=1e-4) and row["canary_gap"] < 1e-4 for row in rows)
    errors = [(tmp_path / f"error{rank}").read_text() for rank in range(2)]
    assert errors[0] == errors[1]
    assert "its weights are stale" in errors[0]


def main(folder: Path, url: str, deaf: str) -> None:
    """One of two processes: train with a server that does not follow, then with a good one."""
    setattr(LanguagePlanner, "read", read)  # noqa: B010
    for name, at in (("failing", deaf), ("out", url)):
        language = {"backend": "vllm_server", "vllm": {"base_url": at, "canary_tolerance": 1e-3}}
        config = settings(folder, language, num_minibatches=2)
        work = train(config, checkpoint=folder / "phase1_best.pth", output_dir=folder / name)
        try:
            asyncio.run(work)
        except UserError as error:
            (folder / f"error{PartialState().process_index}").write_text(str(error))


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3])
