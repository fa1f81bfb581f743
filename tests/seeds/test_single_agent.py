"""Single agents of 002: an agent and an environment with rLLM's methods train without a workflow."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from orchestai.agents.trainer import AgentTrainer
from orchestai.errors import UserError
from support.agents import sample


class Echo:
    """An agent that sends what it writes."""

    def __init__(self, system: str = "") -> None:
        self.system = system

    def reset(self) -> None:
        self.chat_completions = [{"role": "system", "content": self.system}]

    def update_from_env(self, observation: str, reward: float, done: bool, info: dict[str, Any]) -> None:
        self.chat_completions.append({"role": "user", "content": observation})

    def update_from_model(self, response: str) -> str:
        self.chat_completions.append({"role": "assistant", "content": response})
        return response


class Plain:
    """Pays for ASCII, twice; it breaks down for the question that it is told."""

    def __init__(self, question: str, broken: str) -> None:
        self.question, self.broken, self.steps = question, broken, 0

    @classmethod
    def from_dict(cls, task: dict[str, Any]) -> Plain:
        return cls(task["question"], task["broken"])

    def reset(self) -> tuple[str, dict[str, Any]]:
        if self.question == self.broken:
            raise RuntimeError("no such place")
        return self.question, {}

    def step(self, action: str) -> tuple[str, float, bool, dict[str, Any]]:
        self.steps += 1
        return "Again.", sample.plain(action) / 2, self.steps == 2, {}


def trainer(output: Path, broken: str = "", **changes: Any) -> AgentTrainer:
    classes = {"agent_class": Echo, "env_class": Plain, "agent_args": {"system": "Write."}}
    settings = sample.settings(tasks={"unscorable_limit": 0.5})
    tasks = {"train_dataset": sample.TASKS[:4], "val_dataset": sample.TASKS[4:]}
    return AgentTrainer(config=settings, output_dir=output, env_args={"broken": broken}, **classes | tasks | changes)


def test_one_agent_learns_in_an_environment(tmp_path: Path) -> None:
    """It reads what the agent keeps, is paid at every step, and is not blamed for an environment that breaks down."""
    summary = trainer(tmp_path, broken=sample.TASKS[0].instruction).train()
    assert summary.complaint == ""
    rows = sample.rows(tmp_path)
    assert rows[0]["steps"] == 2
    assert 0 < rows[0]["reward"] <= 1
    assert rows[0]["unscorable_share"] == 0.25
    assert any(row.get("grad_norm", 0) > 0 for row in rows)
    episode = json.loads((tmp_path / "phase2_rollouts.jsonl").read_text().splitlines()[-1])
    assert "Again." in episode["transcript"]


def test_agent_and_environment_go_together(tmp_path: Path) -> None:
    for changes in ({"env_class": None}, {"workflow_class": sample.Talk}):
        with pytest.raises(UserError, match="agent_class and env_class go together"):
            trainer(tmp_path, **changes)
