"""The packages form layers: an import that runs up ties what is general to what uses it."""

from __future__ import annotations

import pytest

linter = pytest.importorskip("importlinter.cli", reason="import-linter needs Python 3.11")


def test_no_package_imports_from_above(repository):
    assert (
        linter.lint_imports(config_filename=str(repository / "pyproject.toml"), no_cache=True)
        == linter.EXIT_STATUS_SUCCESS
    )
