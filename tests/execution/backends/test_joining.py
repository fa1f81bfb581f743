"""An address where no cluster is, is said soon: Ray would try for a quarter of an hour."""

from __future__ import annotations

import socket

import pytest

pytest.importorskip("ray")
from orchestai.cluster import actors
from orchestai.config import PlaceConfig, RayConfig, SandboxConfig
from orchestai.errors import UserError
from orchestai.execution.remote import open_remote


@pytest.mark.timeout(120)
@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "no-such-host.invalid"])
def test_an_address_without_a_cluster_is_refused(host: str) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"{host}:{free.getsockname()[1]}"
    place = PlaceConfig(backend="ray", ray={"address": address})
    with pytest.raises(UserError, match=r"no cluster at .*ray start --head"), open_remote(SandboxConfig(), place):
        pass


def test_local_asks_for_a_ray_of_this_machine_whatever_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray itself would start one as a cluster of others, whose CPUs a second pool waits for."""
    asked: dict[str, object] = {}
    monkeypatch.setenv("RAY_ADDRESS", "127.0.0.1:1")
    monkeypatch.setattr(actors.ray, "init", lambda **options: asked.update(options))
    with actors.joined(RayConfig(address="local")):
        pass
    assert (asked["address"], asked["namespace"]) == ("local", "orchestai-alone")
