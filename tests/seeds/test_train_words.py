"""The words of 000 that say how large a batch is, and what of it one process takes at a time."""

from __future__ import annotations

from pathlib import Path

import pytest

from orchestai.config import Phase2Config
from orchestai.config.aliases import understand
from orchestai.errors import UserError


@pytest.fixture(autouse=True)
def _in_the_repository(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(repository)


def phase2(*words: str) -> Phase2Config:
    """Of the preset for a CPU: 32 tasks, 4 plans of each."""
    return understand(["run_cfg=cpu", *words]).config.training.phase2_rl


def test_a_batch_larger_than_the_run_makes_it_longer() -> None:
    """The update took 32 of its 128 tasks, and nothing said so."""
    large = phase2("train_batch_size=512")
    assert (large.tasks_per_update, large.num_episodes) == (128, 128)
    small = phase2("train_batch_size=16")
    assert (small.tasks_per_update, small.num_episodes) == (4, 32)


def test_the_batch_of_a_device(monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole batch is that of one process times their number, unless it is named, and then it is cut into passes."""
    monkeypatch.setenv("WORLD_SIZE", "8")
    alone = phase2("per_device_train_batch_size=4")
    assert (alone.tasks_per_update * alone.num_generations, alone.micro_batch_size) == (32, 4)
    assert alone.micro_batch_tokens is None
    both = phase2("per_device_train_batch_size=4", "train_batch_size=64")
    assert (both.tasks_per_update * both.num_generations, both.micro_batch_size) == (64, 4)
    with pytest.raises(UserError, match="no multiple of per_device_train_batch_size x processes, 4 x 8"):
        phase2("per_device_train_batch_size=4", "train_batch_size=48")
    with pytest.raises(UserError, match="per_device_train_batch_size: 24 plans"):
        phase2("per_device_train_batch_size=3", "training.phase2_rl.num_generations=5")
