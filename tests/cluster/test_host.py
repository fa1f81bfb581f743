"""What is installed on a node is said without importing it, and what runs there is made only when it is told to."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from orchestai.cluster.host import version_of


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A package of this name with a module, before the one that is installed; to import it fails."""
    folder = tmp_path / "orchestai"
    folder.mkdir()
    (folder / "__init__.py").write_text("raise ImportError\n")
    (folder / "module.py").write_text("")
    monkeypatch.syspath_prepend(tmp_path)
    own = sys.modules.pop("orchestai")
    yield folder
    sys.modules["orchestai"] = own


def test_checkouts_with_one_number_are_told_apart_by_their_source(checkout: Path) -> None:
    first = version_of("orchestai")
    (checkout / "notes.txt").write_text("no source")
    assert version_of("orchestai") == first
    (checkout / "module.py").write_text("def added(): ...\n")
    second = version_of("orchestai")
    (checkout / "module.py").rename(checkout / "renamed.py")
    assert len({first, second, version_of("orchestai")}) == 3
