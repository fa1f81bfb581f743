"""An installed wheel has all that commands need: one lacked the recording and the data, one the planner's graphs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[1]
INSTRUCTION = "Write `task_func(x)`: reverse the list `x` (`[1, 2]` -> `[2, 1]`, `[3, 1, 2]` -> `[2, 1, 3]`)."
PIP = [sys.executable, "-m", "pip", "--disable-pip-version-check"]


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    source = folder / "source"
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True).stdout
    for name in listed.splitlines():
        if (ROOT / name).is_file() and not name.startswith(("tests/", "docs/")):
            (source / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(ROOT / name, source / name)
    build = [*PIP, "wheel", "--quiet", "--no-deps", "--no-build-isolation", "--wheel-dir", str(folder), str(source)]
    subprocess.run(build, check=True)
    (built,) = folder.glob("*.whl")
    return built


def install(environment: Path, *words: object) -> Path:
    """`orchestai` in a new environment."""
    if not environment.exists():
        subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True)
    target = [*PIP, "--python", str(environment / "bin/python"), "install", "--quiet", *map(str, words)]
    subprocess.run(target, check=True, env=_environment())
    return environment / "bin/orchestai"


@pytest.fixture(scope="module")
def program(wheel: Path) -> Path:
    """`orchestai` of the wheel, in an environment that borrows the dependencies of this one."""
    environment = wheel.parent / "environment"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(environment)], check=True)
    (packages,) = environment.glob("lib/python*/site-packages")
    (packages / "borrowed.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return install(environment, "--no-deps", "--force-reinstall", wheel)


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}


def run(program: Path, folder: Path, *words: str) -> str:
    done = subprocess.run([program, *words], cwd=folder, capture_output=True, text=True, env=_environment())
    assert done.returncode == 0, done.stderr[-2000:]
    return done.stdout


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_wheel_answers_in_an_empty_folder(program: Path, tmp_path: Path) -> None:
    where = [program.parent / "python", "-c", "import orchestai; print(orchestai.__file__)"]
    found = subprocess.run(where, cwd=tmp_path, capture_output=True, text=True, env=_environment(), check=True).stdout
    assert str(program.parents[1]) in found
    assert "run" in run(program, tmp_path, "--help")
    result = json.loads(run(program, tmp_path, "run", INSTRUCTION, "--json"))
    named: dict[str, Any] = {}
    exec(result["answer"], named)
    assert named["task_func"]([3, 1, 2]) == [2, 1, 3]
    assert result["receipt"]["status"] == "complete"
    assert "ok      workers: calculator" in run(program, tmp_path, "doctor")
    collected = ("collect", "--num_executions", "2", "--planner", "whole:smol-greedy", "workers.on_miss=unscorable")
    run(program, tmp_path, *collected, "tasks.limit=2", "tasks.unscorable_limit=1")
    run(program, tmp_path, "prepare-plans", "--from", "instructions", "data/instructions")
    assert len(json.loads((tmp_path / "training_data.json").read_text())) > 2000


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_the_wheel_alone_plans_and_answers_without_torch(wheel: Path, tmp_path: Path) -> None:
    environment = tmp_path / "environment"
    program = install(environment, "-c", ROOT / "constraints.txt", wheel)
    assert not [*environment.glob("lib/python*/site-packages/torch*")]
    assert sum(path.lstat().st_size for path in environment.rglob("*")) < 400e6
    assert run(program, tmp_path, "run", "reverse the word stone, then write it in capitals") == "ENOTS\n"
    said = subprocess.run([program, "train-phase1"], cwd=tmp_path, capture_output=True, text=True, env=_environment())
    assert said.returncode == 2
    assert "pip install 'orchestai[train]'" in said.stderr + said.stdout
