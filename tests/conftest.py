"""What several test files need: where the repository is, and where data that is not part of it may lie."""

from pathlib import Path

import pytest

from support.repository import REPOSITORY


@pytest.fixture(scope="session")
def repository() -> Path:
    return REPOSITORY


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Public data sets beside the checkout; a test that needs them skips where they are absent."""
    data = REPOSITORY.parent / "shared" / "data"
    if not data.is_dir():
        pytest.skip("the public data sets are not beside this checkout")
    return data
