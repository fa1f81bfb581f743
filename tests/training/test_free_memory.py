"""What training keeps in memory must fit into a container's limit, which the system's own figures do not show."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from orchestai.training.learner import free_bytes

GIB = 1 << 30


@pytest.fixture(autouse=True)
def a_large_machine(monkeypatch):
    class Memory:
        available = 200 * GIB

    monkeypatch.setattr(psutil, "virtual_memory", lambda: Memory)


def free(folder: Path, own: str, files: dict[str, object]) -> int:
    """In GiB, where the process is in these groups, and their files say that."""
    (folder / "own").write_text(own)
    for name, value in files.items():
        path = folder / "groups" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{value}\n")
    return free_bytes(folder / "own", folder / "groups") // GIB


def test_a_container_may_take_what_its_limit_leaves(tmp_path):
    assert free(tmp_path, "0::/\n", {"memory.max": 8 * GIB, "memory.current": 3 * GIB}) == 5


def test_a_job_within_limits_of_others_may_take_what_the_tightest_leaves(tmp_path):
    files = {
        "slurm/job_7/step_0/memory.max": "max",
        "slurm/job_7/step_0/memory.current": 1 * GIB,
        "slurm/job_7/memory.max": 8 * GIB,
        "slurm/job_7/memory.current": 2 * GIB,
        "slurm/memory.max": 100 * GIB,
        "slurm/memory.current": 60 * GIB,
    }
    assert free(tmp_path, "0::/slurm/job_7/step_0\n", files) == 6


def test_without_a_limit_what_is_available_counts(tmp_path):
    assert free(tmp_path, "0::/\n", {"memory.max": "max", "memory.current": 3 * GIB}) == 200
    assert free_bytes(tmp_path / "none", tmp_path) == 200 * GIB
