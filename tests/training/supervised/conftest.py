"""The training file of a small planner of heads; a language model has one of its own."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestai.data.training_file import save_training_data
from support.training.phase1 import config, examples


@pytest.fixture
def data(tmp_path) -> Path:
    path = tmp_path / "training_data.json"
    save_training_data(path, examples(), config())
    return path
