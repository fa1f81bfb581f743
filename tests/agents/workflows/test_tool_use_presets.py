"""Every preset must load, name suites and tools that exist, and run on the sample data with the tiny model."""

from typer.testing import CliRunner

from orchestai.agents.search_index import open_index
from orchestai.cli.agents import agents


def test_a_corpus_is_indexed_from_the_command_line(repository, tmp_path):
    corpus, folder = repository / "data" / "agents" / "corpus.jsonl", tmp_path / "index"
    result = CliRunner().invoke(agents, ["index", str(corpus), "--output", str(folder)])
    assert result.exit_code == 0, result.output
    assert "182 passages" in result.output
    assert open_index(folder).search("emblem of Hollin", 1)[0].title == "Hollin"
