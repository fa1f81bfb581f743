"""The example session of 002, in short: the script trains by PPO under logs/, and its checkpoint is evaluated."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from orchestai import cli
from orchestai.agents.recipes import load_agent_config
from orchestai.agents.trainer import AgentTrainer
from orchestai.cli import agent_scripts
from orchestai.errors import UserError
from support.agents import sample

WORDS = ["model=tiny", "training.phase2_rl.num_episodes=4", "trainer.save_freq=1", "sandbox.level=process"]


def type_script(monkeypatch: pytest.MonkeyPatch, command: str, *words: str) -> None:
    """Run the script for `command` of deepcoder; what it exits with is its exit code."""

    def main(argv: list[str]) -> None:
        result = CliRunner().invoke(cli.app, argv)
        assert result.exception is None, result.output

    monkeypatch.setattr(agent_scripts, "main", main)
    monkeypatch.setattr(agent_scripts.sys, "argv", ["script", *words])
    agent_scripts.run(command, "deepcoder")


@pytest.mark.slow
def test_the_example_session(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a folder of its own, where the presets and the data are seen as in the repository."""
    for name in ("configs", "data"):
        (tmp_path / name).symlink_to(repository / name)
    monkeypatch.chdir(tmp_path)
    type_script(monkeypatch, "train", *WORDS)
    metrics = [json.loads(line) for line in Path("logs/phase2_metrics.jsonl").read_text().splitlines()]
    assert any(row.get("value_loss", 0) > 0 for row in metrics), "PPO learns values"
    assert list(Path("logs").rglob("events.out.tfevents.*")), "for tensorboard --logdir=logs"
    assert sorted(path.name for path in Path("logs").glob("checkpoint_*")) == ["checkpoint_1", "checkpoint_2"]
    type_script(monkeypatch, "evaluate", "model=tiny", "sandbox.level=process", "--checkpoint=logs/checkpoint_1")
    assert json.loads(Path("agents_evaluation.json").read_text())["checkpoint"] == "logs/checkpoint_1/phase2_last"


def test_a_configuration_is_a_mapping_or_words() -> None:
    """As a file would say it, with the words of other trainers among them."""
    workers = {"pool": {"qwen2.5": {"kind": "tool", "tool": "calculator", "card": "Adds."}}}
    values = {"training": {"phase2_rl": {"seed": 3}}, "data": {"train_batch_size": 8}, "workers": workers}
    words = ["training.phase2_rl.seed=3", "data.train_batch_size=8", f"workers={json.dumps(workers)}"]
    wanted = load_agent_config("support.agents.sample:Talk", None, words)
    for config in (values, words):
        trainer = AgentTrainer(workflow_class=sample.Talk, config=config)
        assert trainer.config == wanted
        assert trainer.workflow_class is sample.Talk
    with pytest.raises(UserError, match="did you mean 'credit'"):
        AgentTrainer(workflow_class=sample.Talk, config={"agents": {"credits": "turn"}})


async def test_steps_of_a_role_can_be_rewarded() -> None:
    """`generator.steps[0].reward = r`, as in the document's `run`."""

    class Steps(sample.Talk):
        async def run(self, task, context):
            caller = context.conversation("caller")
            await caller.ask("?")
            caller.steps[0].reward = 0.5
            return context.episode(1.0)

    class Says:
        policy, trainable = "x", False

        async def say(self, messages, max_new_tokens):
            from orchestai.agents.conversation import Act

            return Act("!", True, 1)

    from orchestai.agents.workflow import AttemptContext

    episode = await Steps(Steps.Args(), None).run(sample.TASKS[0], AttemptContext(sample.TASKS[0], lambda role: Says()))
    assert episode.metrics["caller_reward"] == 0.5
