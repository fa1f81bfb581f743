"""Each preset is a configuration that works with its workflow's settings and sample data, and its scripts are doors."""

from __future__ import annotations

import gzip
import json
import runpy
import sys

import pytest

from orchestai.agents.prepare import prepare
from orchestai.agents.recipes import load_agent_config
from orchestai.agents.registry import find
from orchestai.agents.trainer import AgentTrainer
from orchestai.agents.workflows.deepcoder import DeepCoder
from orchestai.cli import agent_scripts
from orchestai.errors import UserError
from orchestai.tasks import load_suite

NAMES = {
    "deepcoder": ("deepcoder/train_multi_agent_deepcoder.py", "deepcoder/run_multi_agent_deepcoder.py"),
    "swe": ("swe/train_multi_agent_swe.py", "swe/run_multi_agent_swe.py"),
    "math_tool": ("math_tool/train_multi_agent_math_tool.py", "math_tool/run_multi_agent_math_tool.py"),
    "search": ("search/train_multi_agent_search.py", "search/run_multi_agent_search.py"),
    "deep_research": ("deepresearch/train_multi_agent_deepresearch.py", "deepresearch/run_multi_agent_deepresearch.py"),
}


@pytest.mark.parametrize("words", [[], ["model=tiny"]])
@pytest.mark.parametrize("name", NAMES)
def test_presets_hold_what_their_workflow_knows(name, words, repository, monkeypatch):
    monkeypatch.chdir(repository)
    config = load_agent_config(name, repository / "configs" / "agents" / f"{name}.yaml", words)
    workflow = find(name)
    workflow.Args(**config.agents.workflow_args)
    assert config.agents.credit == "role"
    if words:
        suite = load_suite(config.tasks.suite, config.tasks.path)
        assert len(suite.split("train")) > 1
        assert suite.split("test")


@pytest.mark.parametrize("name", NAMES)
def test_the_seeds_scripts_are_the_command_with_the_preset(name, repository, monkeypatch):
    called = []
    monkeypatch.setattr(agent_scripts, "main", called.append)
    for script, command in zip(NAMES[name], ("train", "evaluate"), strict=True):
        monkeypatch.setattr(sys, "argv", ["script", "data.train_batch_size=16"])
        runpy.run_path(str(repository / "examples" / "multi_agent" / script))
        preset = f"configs/agents/{name}.yaml"
        assert called[-1][:5] == ["agents", command, name, "--config", preset]
        assert called[-1][-1] == "data.train_batch_size=16"
        assert (repository / preset).is_file()


def test_a_user_passes_a_workflow_with_its_settings_as_the_seed_does(repository):
    def code_reward_fn(task, answer, sandbox):
        return 1.0

    arguments = {"reward_function": code_reward_fn, "max_refinement_iterations": 3}
    trainer = AgentTrainer(
        workflow_class=DeepCoder,
        workflow_args=arguments,
        config=repository / "configs" / "agents" / "deepcoder.yaml",
        train_dataset=load_suite("written", str(repository / "data" / "agents" / "code.jsonl")).split("train"),
        val_dataset=load_suite("written", str(repository / "data" / "agents" / "code.jsonl")).split("test"),
    )
    assert trainer.workflow_class.Args(**trainer.workflow_args).reward_function is code_reward_fn


def test_prepared_tasks_are_read_back_as_they_were(tmp_path):
    source = tmp_path / "test.jsonl.gz"
    with gzip.open(source, "wt") as file:
        for i in range(3):
            file.write(json.dumps({"question": f"How many? {i}", "answer": f"#### {i}"}) + "\n")
    prepared = prepare("gsm8k", tmp_path / "out", str(source), split="test", limit=2)
    suite = load_suite("written", str(tmp_path / "out" / "tasks.jsonl"))
    assert suite.splits == ("test",)
    assert suite.split("test") == prepared == load_suite("gsm8k", str(source)).split("test")[:2]
    with pytest.raises(UserError, match=r"set tasks\.path to a file of tasks"):
        load_suite("written")
