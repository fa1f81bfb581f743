"""What training keeps in memory must fit into a container's limit, which the system's own figures do not show."""

import psutil
import pytest

from orchestai.training.free_memory import free_bytes

GIB = 1 << 30


@pytest.fixture(autouse=True)
def a_large_machine(monkeypatch):
    class Memory:
        available = 200 * GIB

    monkeypatch.setattr(psutil, "virtual_memory", lambda: Memory)


def test_a_container_may_take_what_its_limit_leaves(tmp_path):
    (tmp_path / "memory.max").write_text(f"{8 * GIB}\n")
    (tmp_path / "memory.current").write_text(f"{3 * GIB}\n")
    assert free_bytes(tmp_path) == 5 * GIB


def test_so_may_one_under_the_first_version_of_control_groups(tmp_path):
    (tmp_path / "memory").mkdir()
    (tmp_path / "memory" / "memory.limit_in_bytes").write_text(f"{8 * GIB}\n")
    (tmp_path / "memory" / "memory.usage_in_bytes").write_text(f"{9 * GIB}\n")
    assert free_bytes(tmp_path) == 0


def test_without_a_limit_what_is_available_counts(tmp_path):
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "memory.current").write_text(f"{3 * GIB}\n")
    assert free_bytes(tmp_path) == 200 * GIB
