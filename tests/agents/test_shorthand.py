"""Short words and other trainers' words do what they say, or say what to write instead."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from orchestai.agents.recipes.shorthand import load_agent_config
from orchestai.agents.registry import WORKFLOWS, presets
from orchestai.cli.agents import agents
from orchestai.errors import UserError

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


@pytest.mark.parametrize(
    ("word", "message"),
    [
        ("trainer.gradient_accumulation_steps=4", "set the batch with data.train_batch_size"),
        ("training.phase2_rl.beta=1", r"phase2_rl\.beta: unknown key .* planners"),
        ("agents.credits=turn", "unknown key .*did you mean 'credit'"),
        ("agents.credit=turns", "is not one of"),
        ("agents.frozen={caller: nobody}", "no worker or model 'nobody'"),
        ("agents.models={caller: tiny}", "needs agents.policies=separate"),
        ("quick", "write it as section.key=value"),
    ],
)
def test_what_cannot_be_meant_is_refused_with_a_remedy(word, message):
    with pytest.raises(UserError, match=message):
        load_agent_config(NAME, None, [word])


def test_the_tiny_model_comes_with_a_short_run_and_later_words_win():
    config = load_agent_config(NAME, None, ["model=tiny", "training.phase2_rl.num_episodes=6"])
    assert config.model.name == "tiny"
    assert config.training.phase2_rl.num_episodes == 6
    assert load_agent_config(NAME, None, ["model=Qwen/Qwen3-0.6B"]).model.name == "Qwen/Qwen3-0.6B"


def test_a_file_is_read_back_as_it_was_resolved(tmp_path):
    config = load_agent_config(NAME, None, ["model=tiny", "agents.budget.turns=3", "agents.credit=turn"])
    path = tmp_path / "resolved.yaml"
    path.write_text(config.to_yaml())
    assert load_agent_config(NAME, path) == config


@pytest.mark.parametrize(
    ("name", "message"),
    [("deepcodr", "did you mean 'deepcoder'"), ("no.such:Class", "No module"), ("pathlib:Path", "not a subclass")],
)
def test_a_workflow_that_is_not_there_is_named(name, message):
    from orchestai.agents.registry import find

    with pytest.raises(UserError, match=message):
        find(name)


def test_a_preset_is_named_as_a_workflow_is(repository, monkeypatch):
    """Also from another folder, where the checkout's are found; and with the sample data of its workflow."""
    for name in ("tool_use_nq", "tool_use_small", "magrpo_arxiv_cross"):
        path = repository / "configs" / "agents" / f"{name}.yaml"
        assert load_agent_config(name) == load_agent_config("", path)
        assert load_agent_config(name, None, ["model=tiny"]) == load_agent_config(
            load_agent_config(name).agents.workflow, path, ["model=tiny"]
        )
    monkeypatch.chdir(repository / "tests")
    assert load_agent_config("tool_use_nq").tasks.suite == "nq_open"


def test_a_workflow_s_defaults_hold_where_a_preset_has_its_name():
    assert load_agent_config("tool_use").model.name == "smollm2-135m"


def test_a_name_that_is_neither_lists_both():
    with pytest.raises(UserError, match=r"workflows tool_use, .*presets .*tool_use_nq.*did you mean 'tool_use_nq'"):
        load_agent_config("tool_use_ng")


def test_a_preset_trains_by_its_name_from_the_command_line(tmp_path, repository, monkeypatch):
    monkeypatch.chdir(repository)
    words = ["model=tiny", "training.phase2_rl.num_episodes=1", "--output_dir", str(tmp_path)]
    result = CliRunner().invoke(agents, ["train", "magrpo_arxiv_cross", *words])
    assert result.exception is None
    assert "joint_mode: cross" in (tmp_path / "agents.config.yaml").read_text()


def test_keys_that_do_not_go_together_are_named_without_the_whole_file():
    with pytest.raises(UserError) as error:
        load_agent_config(NAME, None, ["agents.frozen.caller=nobody"])
    assert str(error.value).endswith(
        "agents.frozen.caller: no worker or model 'nobody' in workers.pool or workers.models"
    )


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


def test_a_file_that_an_earlier_version_resolved_is_read(tmp_path):
    """It names the keys of plans too, with their defaults; a value of the user's is still refused."""
    resolved = load_agent_config(NAME).model_dump(mode="json")
    resolved["training"]["phase2_rl"] |= {"alpha": 10.0, "beta": None, "explore": ["worker", "fallback"]}
    path = tmp_path / "agents.config.yaml"
    path.write_text(json.dumps(resolved))
    assert load_agent_config("", path) == load_agent_config(NAME)
    with pytest.raises(UserError, match=r"phase2_rl\.alpha: unknown key"):
        load_agent_config("", path, ["training.phase2_rl.alpha=2"])
