"""The page on phase 2 shows rewards of one's own: they are learned from and logged by name, and mistakes are named."""

from __future__ import annotations

import asyncio
import json
import re
import sys
from pathlib import Path

import pytest
import torch

from orchestai.config import Config, load_config
from orchestai.errors import UserError
from orchestai.planner.checkpoint import save_planner
from orchestai.planner.slots.model import PlannerModel
from orchestai.training.rl.setup import train, validate
from orchestai.workers.pool import worker_cards

PAGE = Path(__file__).parents[3] / "docs" / "reinforcement.md"
FILE = re.compile(r"```(?:python|yaml)\n# (\w+\.\w+)[^\n]*\n(.*?)```", re.S)
WORKERS = """
def terse(text):
    return "Paris"
def wordy(text):
    return "It may be that Paris is the answer which is asked for."
"""
CONFIG = """
planner: {base: none, d_model: 16, num_layers: 1, num_heads: 2, max_subtasks: 2, max_fallbacks: 1}
workers:
  cache_dir: null
  pool:
    terse: {kind: function, function: "my_workers:terse", card: Answers.}
    wordy: {kind: function, function: "my_workers:wordy", card: Answers at length.}
tasks: {suite: file, path: tasks.jsonl}
training: {phase2_rl: {loss_type: dapo, num_generations: 6, tasks_per_update: 4, num_episodes: 4, eval_tasks: 2}}
"""


@pytest.fixture
def shown(tmp_path, monkeypatch):
    """A folder with the module that the page shows, and its section in a configuration."""
    files = dict(FILE.findall(PAGE.read_text()))
    (tmp_path / "my_rewards.py").write_text(files["my_rewards.py"])
    (tmp_path / "my_workers.py").write_text(WORKERS)
    splits = ["train"] * 4 + ["validation"] * 2
    tasks = [
        {"instruction": f"{number}. Name the capital of France.", "answers": "Paris", "split": split}
        for number, split in enumerate(splits)
    ]
    (tmp_path / "tasks.jsonl").write_text("".join(f"{json.dumps(task)}\n" for task in tasks))
    (tmp_path / "config.yaml").write_text(CONFIG + files["rewards.yaml"])
    monkeypatch.chdir(tmp_path)
    yield load_config("config.yaml")
    for name in ("my_rewards", "my_workers"):
        sys.modules.pop(name, None)


def planner(config: Config) -> Path:
    torch.manual_seed(0)
    path = Path("phase1_best.pth")
    save_planner(path, PlannerModel(config.planner, worker_cards(config.workers)), config)
    return path


def test_what_the_page_shows_is_learned_from_and_logged_by_name(shown, capsys):
    checkpoint = planner(shown)
    asyncio.run(train(shown, checkpoint=checkpoint, output_dir=Path("out")))
    rows = [json.loads(line) for line in Path("out/phase2_metrics.jsonl").read_text().splitlines()]
    for prefix in ("", "eval_"):
        row = next(row for row in rows if f"{prefix}reward" in row)
        terms = ("success", "cost", "latency", "checks", "invalid", "f1", "brevity")
        assert sum(row[f"{prefix}reward_{name}"] for name in terms) == pytest.approx(row[f"{prefix}reward"])
    said = set()
    for line in Path("out/phase2_rollouts.jsonl").read_text().splitlines():
        attempt = json.loads(line)
        rewards = attempt["rewards"]
        weights = {name: part["weight"] for name, part in rewards.items()}
        assert (weights["success"], weights["f1"], weights["brevity"]) == pytest.approx((10, 2, 1))
        assert 0 < rewards["f1"]["value"] < 1 or rewards["success"]["value"] == rewards["f1"]["value"]
        said.add((rewards["success"]["value"], attempt["turns"][0]["advantage"] > 0))
    assert said == {(1.0, True), (0.0, False)}
    assert "2 * f1 + 1 * brevity" in " ".join(capsys.readouterr().err.split())
    assert asyncio.run(validate(shown, checkpoint=checkpoint))["reward_brevity"] > 0


def test_a_name_that_nothing_has_is_refused_with_its_key(shown):
    rewards = shown.rewards.model_copy(update={"reward_weights": {"my_rewards:brevty": 0.1}})
    with pytest.raises(UserError, match=r"rewards\.reward_weights: scorer 'my_rewards:brevty'"):
        asyncio.run(
            train(
                shown.model_copy(update={"rewards": rewards}),
                checkpoint=planner(shown),
                output_dir=Path("out"),
            )
        )


def test_a_reward_that_breaks_down_is_no_zero(shown):
    """Nobody was asked whether the answer is brief, so nobody learns that it is not."""
    known = ["rewards.cost_reference_usd=1", "rewards.latency_reference_ms=1"]
    Path("my_rewards.py").write_text("def brevity(task, answer, sandbox):\n    raise ConnectionError('no judge')\n")
    with pytest.raises(UserError, match=r"unscorable.*my_rewards:brevity raised ConnectionError: no judge"):
        asyncio.run(train(load_config("config.yaml", known), checkpoint=planner(shown), output_dir=Path("out")))
