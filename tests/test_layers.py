"""The packages form layers: an import that runs up ties what is general to what uses it."""

from __future__ import annotations

from importlinter.cli import EXIT_STATUS_SUCCESS, lint_imports


def test_no_package_imports_from_above(repository):
    assert lint_imports(config_filename=str(repository / "pyproject.toml"), no_cache=True) == EXIT_STATUS_SUCCESS
