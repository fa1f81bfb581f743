"""Every snippet of README and docs is executed here, by a test that it names, or is marked with what it needs.

`<!-- tested: FILE -->` before a snippet names the tests that run its commands or its text, `<!-- needs: WHAT -->` says
what is not here: data, weights, a server, hours.
"""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from jinja2 import Environment
from typer.main import get_command

from orchestai.cli import app, main
from orchestai.config import load_config
from support.snippets import ROOT, Snippet, code_elsewhere, snippets

SNIPPETS = [*snippets()]
_COMMANDS: Any = get_command(app)
HERE = [snippet for snippet in SNIPPETS if not snippet.how]


def test_all_code_is_a_snippet() -> None:
    """Commands of unknown programs, and Python that no fence marked, were neither executed nor counted."""
    assert [*code_elsewhere()] == []


def test_a_named_test_is_there_and_runs_what_the_snippet_runs() -> None:
    for snippet in [one for one in SNIPPETS if one.how == "tested"]:
        text = (ROOT / snippet.what).read_text()
        assert "def test_" in text, snippet
        for command in snippet.commands:
            verb = next((word for word in command[1:] if re.fullmatch(r"[a-z][a-z_/-]+(\.py)?", word)), "")
            stem = Path(verb).stem.split("_")[0].split("-")[0]
            assert stem in text, f"{snippet}: {snippet.what} runs no {' '.join(command[:2])}"


def test_commands_that_run_elsewhere_are_spelled_as_the_program_reads_them() -> None:
    """An option or a setting that was renamed is found without the data that the command needs."""
    elsewhere = [one for one in SNIPPETS if one.how and one.language == "bash"]
    for command in [one for snippet in elsewhere for one in snippet.commands if one[0] == "orchestai"]:
        named, given = read_command(command[1:])
        overrides = [word for word in given if re.match(r"[a-z_]+\.[\w.]+=", word)]
        of_agents = named == "agents" or any(word.startswith("configs/agents/") for word in command)
        if not of_agents:
            load_config(overrides=overrides)


def read_command(words: list[str]) -> tuple[str, list[str]]:
    """The first command's name and the last one's arguments; raises a usage error for what it does not know."""
    command = _COMMANDS
    context, rest, first = command.make_context("orchestai", list(words)), list(words), ""
    while hasattr(command, "commands"):
        name, command, rest = command.resolve_command(context, rest)
        context = command.make_context(name, list(rest), parent=context)
        first = first or name
    return first, rest


@pytest.mark.parametrize("snippet", [one for one in HERE if one.language == "python"], ids=str)
def test_python_runs(snippet: Snippet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(sys.modules, "snippet", type(sys)("snippet"))
    exec(compile(snippet.text, str(snippet), "exec"), vars(sys.modules["snippet"]))


def test_settings_and_data_are_read(tmp_path: Path) -> None:
    for snippet in HERE:
        if snippet.language == "json":
            assert json.loads(snippet.text), snippet
        elif snippet.language == "jinja":
            assert Environment().from_string(snippet.text).render(inputs={}).strip(), snippet
        elif snippet.language == "toml":
            assert pytest.importorskip("tomllib").loads(snippet.text), snippet
        elif snippet.language == "yaml":
            known = yaml.safe_load(snippet.text)
            (tmp_path / "config.yaml").write_text(snippet.text)
            loaded = load_config(tmp_path / "config.yaml", []).model_dump()
            assert known.keys() <= loaded.keys(), snippet


@pytest.mark.parametrize("snippet", [one for one in HERE if one.language == "bash"], ids=str)
def test_commands_run(snippet: Snippet, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "docs").symlink_to(ROOT / "docs")
    monkeypatch.chdir(tmp_path)
    for command in snippet.commands:
        if command[0] == "curl":
            asks_a_server(command)
            continue
        with pytest.raises(SystemExit) as left:
            main(command[1:])
        assert left.value.code == 0


def asks_a_server(command: list[str]) -> None:
    """What curl would post gets an answer from a server that was started for it."""
    pytest.importorskip("starlette", reason="starlette is not installed (pip install 'orchestai[serve]')")
    from support.serving.served import functions, serving, settings

    address, body = command[1], command[command.index("-d") + 1]
    with serving(settings({"pool": functions("good")}, ("good",))) as served:
        reply = served.client.post(f"/{address.partition('/')[2]}", content=body)
    assert reply.json()["choices"][0]["message"]["content"]
