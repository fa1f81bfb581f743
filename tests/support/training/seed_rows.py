"""The rows of docs/seeds.md, and the checks that they name."""

from __future__ import annotations

import os
import re
import runpy
import shlex
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
import typer
import yaml
from omegaconf import OmegaConf

from orchestai import cli
from orchestai.agents.recipes import load_agent_config
from orchestai.agents.registry import presets
from orchestai.config import LoggingConfig, load_config
from orchestai.config.aliases import understand
from orchestai.config.section import Section
from orchestai.errors import UserError
from orchestai.training import distributed
from support.repository import REPOSITORY

DOCUMENT = REPOSITORY / "docs" / "seeds.md"
VERDICTS = ("as written", "other name", "refused", "later", "not meant")
_HEADING = re.compile(r"## (\d{3}): ")
_QUOTED = re.compile(r"`([^`]+)`")


@dataclass(frozen=True)
class Row:
    """What one seed asks for, and what became of it.

    Attributes:
        seed: number of the document.
        asked: the seed's words, as Markdown.
        verdict: one of `VERDICTS`.
        here: what stands for it here, or why nothing does.
        checks: commands of `CHECKS` that hold the row to the truth.
    """

    seed: str
    asked: str
    verdict: str
    here: str
    checks: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.seed} {self.asked}"


def read_rows() -> list[Row]:
    rows, seed = [], ""
    for line in DOCUMENT.read_text().splitlines():
        if heading := _HEADING.match(line):
            seed = heading[1]
        elif seed and line.startswith("| "):
            asked, verdict, here, check = (cell.strip() for cell in line.strip().strip("|").split("|"))
            if verdict in VERDICTS:
                rows.append(Row(seed, asked, verdict, here, tuple(_QUOTED.findall(check))))
    return rows


def exists(*paths: str) -> None:
    assert not [path for path in paths if not (REPOSITORY / path).exists()]


def defined(*names: str) -> None:
    """Somewhere in the package there is a class, function or constant of each name."""
    source = "\n".join(path.read_text() for path in (REPOSITORY / "orchestai").rglob("*.py"))
    missing = [
        name for name in names if not re.search(rf"^\s*(class |(async )?def )?{name}\b[^.\n]*[:=(]", source, re.M)
    ]
    assert not missing


def tested(*names: str) -> None:
    """Some test of each name holds it, which runs by itself."""
    tests = "\n".join(path.read_text() for path in (REPOSITORY / "tests").rglob("test_*.py"))
    assert not [name for name in names if not re.search(rf"^(async )?def {name}\(", tests, re.M)]


def config(*overrides: str) -> None:
    """config.yaml takes the overrides, and then holds their values."""
    _holds(load_config(REPOSITORY / "config.yaml", overrides), overrides)


def preset(path: str, *pairs: str) -> None:
    """A file as it is written holds these values."""
    _holds(load_config(REPOSITORY / path), pairs)


def _holds(loaded: Section, pairs: Sequence[str]) -> None:
    given = OmegaConf.create(loaded.model_dump(mode="json"))
    for pair in pairs:
        key, _, value = pair.partition("=")
        assert OmegaConf.select(given, key) == OmegaConf.create({"value": yaml.safe_load(value)}).value, pair


def train(*words: str) -> None:
    """`python train.py WORDS`."""
    understand(words)


def agents(name: str, *words: str) -> None:
    """`orchestai agents train NAME --config PRESET WORDS`."""
    load_agent_config(name, presets()[name], words)


def flags(*words: str) -> None:
    """`orchestai COMMAND` has these flags."""
    names = [word for word in words if not word.startswith("-")]
    command = typer.main.get_command(cli.app)
    for name in names:
        command = command.commands[name]  # type: ignore[attr-defined]
    known = {option for parameter in command.params for option in parameter.opts}
    assert {word for word in words if word.startswith("-")} <= known


def script(path: str) -> None:
    """`python PATH --help`."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "argv", [path, "--help"])
        with pytest.raises(SystemExit) as left:
            runpy.run_path(str(REPOSITORY / path), run_name="__main__")
    assert left.value.code == 0


def shell(path: str, *words: str) -> None:
    """`PATH WORDS`, with a stand-in for `accelerate` that starts nothing."""
    stand_in = Path(os.environ["SEEDS_BIN"])
    environment = {**os.environ, "PATH": f"{stand_in}:{os.environ['PATH']}"}
    done = subprocess.run([REPOSITORY / path, *words], env=environment, capture_output=True, text=True)
    if done.returncode:
        raise UserError(done.stderr)
    assert done.stdout.startswith("launch ")


def tracker(name: str) -> None:
    """A run that asks for a tracker, where no tracker is installed."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(distributed, "find_spec", lambda module: None)
        distributed.open_accelerator(None, LoggingConfig(trackers=(name,)), 60)


def refuses(name: str, *words: str) -> None:
    """The check NAME fails for a user, with a message that names what the user wrote."""
    with pytest.raises(UserError) as error:
        CHECKS[name](*words)
    key = words[-1].partition("=")[0]
    assert key in str(error.value)


CHECKS: dict[str, Callable[..., None]] = {
    check.__name__: check
    for check in (exists, defined, tested, config, preset, train, agents, flags, script, shell, tracker, refuses)
}


def run_check(check: str) -> None:
    name, *words = shlex.split(check)
    CHECKS[name](*words)
