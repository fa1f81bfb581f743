"""Planner and training import and work where the system is no POSIX one: without fcntl, resource, pwd and grp."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from orchestai.errors import UserError
from orchestai.sandbox.levels import choose_level

_WITHOUT = """
import builtins, importlib, pkgutil
original = builtins.__import__
missing = {"fcntl", "resource", "pwd", "grp", "termios"}
def without(name, globals=None, *rest, **named):
    if name in missing and (globals or {}).get("__name__", "").startswith("orchestai"):
        raise ImportError(name)
    return original(name, globals, *rest, **named)
builtins.__import__ = without
"""
"""Only for our modules: those of others choose by the system's name, which is still that of a POSIX one."""
_IMPORT_ALL = """
import orchestai
for module in pkgutil.walk_packages(orchestai.__path__, "orchestai."):
    if module.name.startswith("orchestai.sandbox.inside") or module.name.endswith(("__main__", ".run_tests")):
        continue
    try:
        importlib.import_module(module.name)
    except ModuleNotFoundError as missing:
        if missing.name not in {"ray"}:
            raise
"""
"""A module of an extra that is not installed cannot be tried; nothing else may import it without its extra."""
_COMMAND = """
from orchestai.cli import main
main()
"""
_ROOT = str(Path(__file__).parents[1])
_INPUTS = Path(__file__).parent / "reference" / "inputs"


def _run(code: str, *arguments: str, cwd: Path | None = None) -> str:
    command = [sys.executable, "-c", _WITHOUT + code, *arguments]
    done = subprocess.run(command, capture_output=True, text=True, cwd=cwd, env=os.environ | {"PYTHONPATH": _ROOT})
    assert done.returncode == 0, done.stdout[-1000:] + done.stderr[-2000:]
    return done.stdout


def test_every_module_outside_the_jail_imports_without_what_windows_lacks() -> None:
    _run(_IMPORT_ALL)


@pytest.mark.slow
def test_a_slot_planner_trains_and_plans_without_what_windows_lacks(tmp_path: Path) -> None:
    shutil.copytree(_INPUTS, tmp_path, dirs_exist_ok=True)
    _run(_COMMAND, "train-phase1", "--config", "config.yaml", "--output_dir", "out", cwd=tmp_path)
    instruction = "Implement `task_func(n)`, where `n` is an integer.\n1. add 10 to it (for example `5` -> `15`)"
    planner = ("--config", "config.yaml", "--checkpoint", "out/phase1_best.pth")
    assert '"subtasks"' in _run(_COMMAND, "plan", instruction, *planner, cwd=tmp_path)


def test_the_sandbox_says_where_it_cannot_run(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(os, "name", "nt")
        with pytest.raises(UserError) as refused:
            choose_level("process")
    assert "forked processes" in str(refused.value)
