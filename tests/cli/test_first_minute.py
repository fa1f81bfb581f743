"""`orchestai run` in an empty folder: no key, no server, no configuration."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from orchestai.cli import app

HEAVY = ("accelerate", "datasets", "openai", "rich", "torch", "transformers")
PROGRAM = f"""
import atexit, sys
atexit.register(lambda: open("imported", "w").write(" ".join(name for name in {HEAVY} if name in sys.modules)))
from orchestai.cli import main
main()
"""


def test_a_tool_answers_before_any_library_of_models_is_imported(tmp_path: Path) -> None:
    root = Path(__file__).parents[2]
    environment = {**os.environ, "HOME": str(tmp_path / "home"), "PYTHONPATH": str(root)}

    def run(*words: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-c", PROGRAM, "run", *words]
        return subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)

    answered = run("What is 12 * 7?")
    assert (answered.returncode, answered.stdout) == (0, "84\n"), answered.stderr
    assert (tmp_path / "imported").read_text() == ""
    who, took = answered.stderr.splitlines()
    assert who.startswith("What is 12 * 7?: ")
    assert took.startswith("0 USD, ")

    declined = run("Translate good morning into French.", "planner.base=none")
    assert (declined.returncode, declined.stdout) == (1, ""), declined.stderr
    (line,) = declined.stderr.splitlines()
    assert line.startswith('no worker here can do "Translate good morning into French."')
    assert line.endswith("add a server: orchestai init --server URL")
    assert (tmp_path / "imported").read_text() == ""


def test_the_base_planner_splits_what_one_tool_cannot_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for words, answer in (
        ("reverse the word stone, then write it in capitals", "ENOTS"),
        ('remove all vowels from "concentration" and tell me how many letters are left', "8"),
        ("find the date 45 days after 2026-12-24, then tell me what weekday it is", "Sunday"),
    ):
        assert CliRunner().invoke(app, ["run", words]).stdout == f"{answer}\n"


@pytest.mark.parametrize(
    "words", ["long " * 1000, "say \"it\"\nand 'that'", "\N{ROBOT FACE}" * 30, "\udcff\udcfe", "\0\x1b[2J"]
)
def test_whatever_is_asked_has_one_line_for_an_answer_or_a_reason(
    words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    declined = CliRunner().invoke(app, ["run", words, "planner.base=none"])
    assert (declined.exit_code, declined.stdout) == (1, "")
    (line,) = declined.stderr.splitlines()
    assert line.isprintable()
    assert len(line) < 300
