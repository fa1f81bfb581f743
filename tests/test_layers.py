"""The packages form layers: an import that runs up ties what is general to what uses it. None outgrows its budget."""

from __future__ import annotations

import subprocess
import sys

import pytest


def test_no_package_outgrows_its_budget(repository):
    size = [sys.executable, "-m", "benchmarks.size", "--check"]
    done = subprocess.run(size, cwd=repository, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


pytest.importorskip("importlinter.cli", reason="import-linter needs Python 3.11")
LINT = "import sys; from importlinter.cli import lint_imports; sys.exit(lint_imports(no_cache=True))"


def test_no_package_imports_from_above(repository):
    """In a process of its own: the linter disables the loggers that other tests read."""
    done = subprocess.run([sys.executable, "-c", LINT], cwd=repository, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
