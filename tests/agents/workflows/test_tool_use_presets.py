"""Every preset must load, name suites and tools that exist, and run on the sample data with the tiny model."""

import pytest
from typer.testing import CliRunner

from orchestai.agents.recipes.shorthand import load_agent_config
from orchestai.agents.tools import open_index
from orchestai.agents.workflows.tool_use import ToolUse
from orchestai.cli.agents import agents
from orchestai.tasks.suites import load_suite

PRESETS = ("tool_use", "tool_use_small", "tool_use_nq", "tool_use_hotpotqa")


@pytest.mark.parametrize("preset", PRESETS)
def test_a_preset_with_the_tiny_model_reads_the_sample_data(repository, preset, monkeypatch):
    monkeypatch.chdir(repository)
    path = repository / "configs" / "agents" / f"{preset}.yaml"
    config = load_agent_config("tool_use", path, ["model=tiny"])
    assert (config.model.name, config.tasks.suite) == ("data/agents/tiny", "written")
    assert len(load_suite(config.tasks.suite, config.tasks.path).split("train")) == 120
    ToolUse(ToolUse.Args(**config.agents.workflow_args), sandbox=None)


def test_a_corpus_is_indexed_from_the_command_line(repository, tmp_path):
    corpus, folder = repository / "data" / "agents" / "corpus.jsonl", tmp_path / "index"
    result = CliRunner().invoke(agents, ["index", str(corpus), "--output", str(folder)])
    assert result.exit_code == 0, result.output
    assert "182 passages" in result.output
    assert open_index(folder).search("emblem of Hollin", 1)[0].title == "Hollin"
