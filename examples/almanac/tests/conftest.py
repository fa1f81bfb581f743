"""The package as a user has it: built, and installed into a folder of its own."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

EXAMPLE = Path(__file__).parents[1]


@pytest.fixture(scope="session", autouse=True)
def _installed(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    source = tmp_path_factory.mktemp("almanac")
    shutil.copytree(EXAMPLE / "orchestai_almanac", source / "orchestai_almanac")
    shutil.copy(EXAMPLE / "pyproject.toml", source)
    install = ["install", "-q", "--no-deps", "--no-build-isolation", "--no-index", "--target", str(source / "site")]
    subprocess.run([sys.executable, "-m", "pip", *install, str(source)], check=True, capture_output=True, timeout=120)
    sys.path.insert(0, str(source / "site"))
    yield
    sys.path.remove(str(source / "site"))
