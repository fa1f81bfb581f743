"""An address where no cluster is, is said at once: Ray would try for a quarter of an hour."""

from __future__ import annotations

import socket

import pytest

from orchestai.config import PlaceConfig, SandboxConfig
from orchestai.errors import UserError
from orchestai.execution.backends.remote import open_remote

pytest.importorskip("ray")


@pytest.mark.timeout(120)
@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "no-such-host.invalid"])
def test_an_address_without_a_cluster_is_refused(host: str) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        address = f"{host}:{free.getsockname()[1]}"
    place = PlaceConfig(backend="ray", ray={"address": address})
    with pytest.raises(UserError, match=r"no cluster at .*ray start --head"), open_remote(SandboxConfig(), place):
        pass
