"""Short words and other trainers' words do what they say, or say what to write instead."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from orchestai.agents.recipes.shorthand import load_agent_config
from orchestai.agents.registry import WORKFLOWS, presets
from orchestai.cli.agents import agents

NAME = "support.agents.sample:Talk"


def test_words_of_other_trainers_are_ours():
    config = load_agent_config(
        NAME,
        None,
        [
            "data.train_batch_size=8",
            "trainer.total_epochs=5",
            "actor_rollout_ref.actor.optim.lr=5e-6",
            "trainer.save_freq=1000",
            "trainer.test_freq=100",
            "n_parallel_agents=3",
            "trainer.use_amp=true",
            "ray.cluster_config.num_workers=8",
            "workflow_args.silent=true",
        ],
    )
    phase2 = config.training.phase2_rl
    assert (phase2.tasks_per_update, phase2.learning_rate) == (8, 5e-6)
    assert (phase2.save_every, phase2.keep_checkpoints, phase2.eval_every) == (1000, None, 100)
    assert (config.agents.epochs, config.agents.concurrency, config.model.mixed_precision) == (5, 3, "bf16")
    assert config.agents.workflow_args == {"silent": True}
    assert (config.execution.backend, config.execution.ray.num_workers) == ("ray", 8)
    for word in ("trainer.use_amp=false", "model.mixed_precision=no"):  # YAML's `no` is false
        assert load_agent_config(NAME, None, [word]).model.mixed_precision == "no"


def test_a_file_is_read_back_as_it_was_resolved(tmp_path):
    config = load_agent_config(NAME, None, ["model=tiny", "agents.budget.turns=3", "agents.credit=turn"])
    path = tmp_path / "resolved.yaml"
    path.write_text(config.to_yaml())
    assert load_agent_config(NAME, path) == config


def test_a_preset_trains_by_its_name_from_the_command_line(tmp_path, repository, monkeypatch):
    monkeypatch.chdir(repository)
    words = ["model=tiny", "training.phase2_rl.num_episodes=1", "--output_dir", str(tmp_path)]
    result = CliRunner().invoke(agents, ["train", "magrpo_arxiv_cross", *words])
    assert result.exception is None
    assert "joint_mode: cross" in (tmp_path / "agents.config.yaml").read_text()


@pytest.mark.parametrize(
    ("name", "preset", "words"),
    [
        *((name, None, ["model=tiny"]) for name in [*WORKFLOWS, "tool_use_nq"]),
        ("deep_research", None, []),
        ("", "deep_research", []),
        ("deep_research", "deep_research", ["model=tiny"]),
    ],
)
def test_sample_data_is_found_from_any_working_directory(name, preset, words, tmp_path, monkeypatch):
    """A preset is found from anywhere, and with `model=tiny` it then ended with `cannot be read`."""
    monkeypatch.chdir(tmp_path)
    config = load_agent_config(name, preset and presets()[preset], words)
    given = config.agents.workflow_args
    paths = [config.tasks.path, *(given[key] for key in ("corpus", "repositories") if key in given)]
    assert all(Path(path).exists() for path in paths)
    assert not words or config.model.name == "tiny" or Path(config.model.name).is_dir()
