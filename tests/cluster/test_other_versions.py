"""A node with another OrchestAI is refused by name on a real cluster, whatever that OrchestAI lacks."""

from __future__ import annotations

import re
import shutil
from importlib.metadata import version
from pathlib import Path

import pytest

from orchestai.config import PlaceConfig, RayConfig, SandboxConfig
from orchestai.errors import UserError
from orchestai.execution.remote import open_remote
from support.cluster.simulated import simulated_cluster
from support.repository import REPOSITORY

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
NUMBER = version("orchestai")


def older_release(folder: Path) -> None:
    """One that cannot even be imported, as without a library that it wanted."""
    (folder / "orchestai").mkdir()
    (folder / "orchestai" / "__init__.py").write_text("raise ImportError\n")
    (folder / "orchestai-0.0.9.dist-info").mkdir()
    (folder / "orchestai-0.0.9.dist-info" / "METADATA").write_text("Name: orchestai\nVersion: 0.0.9\n")


def checkout_without_a_method(folder: Path) -> None:
    """One with the same number."""
    shutil.copytree(REPOSITORY / "orchestai", folder / "orchestai", ignore=shutil.ignore_patterns("__pycache__"))
    remote = folder / "orchestai" / "execution" / "remote.py"
    source = remote.read_text()
    assert "async def judge" in source
    remote.write_text(source.replace("async def judge", "async def assess", 1))


@pytest.mark.parametrize(("install", "there"), [(older_release, "0.0.9"), (checkout_without_a_method, NUMBER)])
def test_a_node_with_another_orchestai_is_named_with_both_versions(install, there, tmp_path, monkeypatch) -> None:
    install(tmp_path)
    monkeypatch.chdir(tmp_path.parent)  # a worker of Ray looks first where its driver is
    place = PlaceConfig(backend="ray", ray=RayConfig(num_workers=1, wait_s=100))
    said = (
        rf"execution\.ray: .+ \(process \d+\) has orchestai {re.escape(there)} \(source [0-9a-f]{{8}}\), this process "
        rf"has {re.escape(NUMBER)} \(source [0-9a-f]{{8}}\): install the same version"
    )
    with simulated_cluster(0) as cluster:
        cluster.add_node(num_cpus=1, env_vars={"PYTHONPATH": str(tmp_path)})
        with pytest.raises(UserError, match=said), open_remote(SandboxConfig(workers=1), place):
            pass
