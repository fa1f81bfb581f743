"""Every preset must load, name suites and tools that exist, and run on the sample data with the tiny model."""

import subprocess

import pytest
from typer.testing import CliRunner

from orchestai.agents.recipes.shorthand import load_agent_config
from orchestai.agents.registry import find
from orchestai.agents.tools import open_index
from orchestai.agents.workflows.tool_use import ToolUse
from orchestai.cli.agents import agents
from orchestai.errors import UserError
from orchestai.tasks.suites import load_suite
from orchestai.tasks.task import Task

PRESETS = ("tool_use", "tool_use_small", "tool_use_nq", "tool_use_hotpotqa")


@pytest.mark.parametrize("preset", PRESETS)
def test_a_preset_is_of_the_workflow(repository, preset):
    config = load_agent_config("tool_use", repository / "configs" / "agents" / f"{preset}.yaml")
    assert find(config.agents.workflow) is ToolUse
    args = ToolUse.Args(**config.agents.workflow_args)
    assert config.agents.credit == "turn"
    assert config.agents.budget.turns == args.max_calls + 1
    load_suite(config.tasks.suite, config.tasks.path)
    if args.corpus is not None:
        with pytest.raises(UserError, match="cannot be read"):  # a user's own index
            ToolUse(args, sandbox=None).index(Task(task_id="", suite="", instruct_prompt=""))


@pytest.mark.parametrize("preset", PRESETS)
def test_a_preset_with_the_tiny_model_reads_the_sample_data(repository, preset, monkeypatch):
    monkeypatch.chdir(repository)
    path = repository / "configs" / "agents" / f"{preset}.yaml"
    config = load_agent_config("tool_use", path, ["model=tiny"])
    assert (config.model.name, config.tasks.suite) == ("data/agents/tiny", "written")
    assert len(load_suite(config.tasks.suite, config.tasks.path).split("train")) == 120
    ToolUse(ToolUse.Args(**config.agents.workflow_args), sandbox=None)


def test_the_script_passes_its_words_on(repository, tmp_path):
    """With a stand-in for `accelerate`, since only the words are looked at."""
    stand_in = tmp_path / "accelerate"
    stand_in.write_text('#!/bin/sh\necho "$@"\n')
    stand_in.chmod(0o755)
    script = repository / "local_training" / "scripts" / "local_mt_grpo_train.sh"
    words = ["--num_process", "3", "--config", "x.yaml", "--output_dir", "out", "model=tiny"]
    said = subprocess.run(
        [str(script), *words], env={"PATH": f"{tmp_path}:/usr/bin:/bin"}, capture_output=True, text=True, check=True
    ).stdout
    assert "--config_file" in said
    assert "accelerate_configs/deepspeed_zero3.yaml --num_processes 3" in said
    assert said.strip().endswith("mt_grpo_trainer.py --config x.yaml --output_dir out model=tiny")


def test_a_corpus_is_indexed_from_the_command_line(repository, tmp_path):
    corpus, folder = repository / "data" / "agents" / "corpus.jsonl", tmp_path / "index"
    result = CliRunner().invoke(agents, ["index", str(corpus), "--output", str(folder)])
    assert result.exit_code == 0, result.output
    assert "182 passages" in result.output
    assert open_index(folder).search("emblem of Hollin", 1)[0].title == "Hollin"
