"""What installed packages of others add: a real distribution, built and installed into a folder of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestai.config import WorkersConfig
from orchestai.data.readers import find_reader
from orchestai.errors import UserError
from orchestai.rewards.scorers import find_scorer
from orchestai.sandbox import Sandbox
from orchestai.tasks import load_suite
from orchestai.workers.base import Request
from orchestai.workers.pool import WorkerPool, worker_cards

PROJECT = """
[build-system]
requires = ["setuptools"]
build-backend = "setuptools.build_meta"

[project]
name = "acme-orchestra"
version = "1.2"

[tool.setuptools]
py-modules = ["acme_orchestra"]

[project.entry-points."orchestai.workers"]
acme-shout = "acme_orchestra:shout"
acme-broken = "acme_orchestra_absent:worker"

[project.entry-points."orchestai.scorers"]
acme-length = "acme_orchestra:length"
acme-constant = "acme_orchestra:CONSTANT"

[project.entry-points."orchestai.suites"]
acme-capitals = "acme_orchestra:capitals"

[project.entry-points."orchestai.readers"]
acme-plans = "acme_orchestra:read"
"""
MODULE = """
from orchestai.tasks.suite import Suite
from orchestai.tasks.task import Task

CONSTANT = 3

def shout(text):
    return text.upper()

def length(task, answer, sandbox):
    return float(len(answer))

def capitals(path):
    tasks = [Task(task_id="1", suite="acme", instruct_prompt="Capital of France?", answers=("Paris",))]
    return Suite("acme-capitals", {"train": lambda: tasks})

def read(path):
    yield from ()
"""


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("acme")
    (folder / "pyproject.toml").write_text(PROJECT)
    (folder / "acme_orchestra.py").write_text(MODULE)
    install = ["install", "-q", "--no-deps", "--no-build-isolation", "--no-index", "--target", str(folder / "site")]
    subprocess.run([sys.executable, "-m", "pip", *install, str(folder)], check=True, capture_output=True, timeout=120)
    return folder / "site"


@pytest.fixture
def acme(installed: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.syspath_prepend(installed)
    yield
    sys.modules.pop("acme_orchestra", None)


async def test_a_package_adds_a_worker_a_scorer_a_suite_and_a_reader(acme: None) -> None:
    config = WorkersConfig(pool={"w": {"kind": "acme-shout", "card": "c"}})
    with Sandbox(workers=1) as sandbox:
        async with WorkerPool.from_config(config, sandbox) as pool:
            assert (await pool.answer("w", Request("hi"))).text == "HI"
        suite = load_suite("acme-capitals")
        (task,) = suite.split("train")
        assert find_scorer("acme-length")(task, "four", sandbox) == 4.0
    assert list(find_reader("acme-plans")(Path())) == []


def test_an_unknown_name_lists_those_of_packages_too(acme: None) -> None:
    with pytest.raises(UserError, match=r"acme-shout \(of acme-orchestra 1\.2\).*did you mean 'acme-shout'"):
        worker_cards(WorkersConfig(pool={"w": {"kind": "acme-shuot", "card": "c"}}))
    with pytest.raises(ValueError, match=r"unit_tests.*acme-length \(of acme-orchestra 1\.2\)"):
        find_scorer("acme-lenth")
    with pytest.raises(UserError, match=r"humaneval.*acme-capitals \(of acme-orchestra 1\.2\)"):
        load_suite("acme-capital")
    with pytest.raises(UserError, match=r"worfbench.*acme-plans \(of acme-orchestra 1\.2\)"):
        find_reader("acme-plan")
