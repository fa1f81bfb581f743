"""How a process joins a cluster, or starts Ray on its own machine."""

from __future__ import annotations

import logging
import os
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import ray
from ray import exceptions as lost

from orchestai.config import RayConfig
from orchestai.config.aliases import processes
from orchestai.errors import UserError

_TO_REACH_S = 10.0
_TRIES_TO_JOIN = "RAY_gcs_server_port_wait_time_s"
"""Ray's variable for how often a cluster is asked to answer, 40 seconds each time; without it, twenty times."""
_HERE = "local"
"""The address that asks for a Ray of this machine."""
_OWN = "orchestai-alone"
"""Ray's namespace in a Ray that a process started for itself."""


@contextmanager
def joined(config: RayConfig) -> Iterator[None]:
    """Within a cluster, or a Ray of this machine, while the block lasts.

    Raises:
        UserError: the cluster cannot be reached.
    """
    before = ray.is_initialized()
    if not before:
        _join(config)
    try:
        yield
    finally:
        if not before:
            ray.shutdown()


def is_own() -> bool:
    """Whether this process is in a Ray of its own, whose CPUs nobody else wants."""
    return ray.get_runtime_context().namespace == _OWN


def actors_for(number: int | None, cpus: int, gpus: float, sharing: int = 1) -> int:
    """How many actors one pool has.

    Args:
        number: as configured; None for as many as the nodes have CPUs and GPUs for, shared among processes and pools.
        cpus, gpus: of each actor.
        sharing: pools of a process.
    """
    if number is not None:
        return number
    room = sum(_room(node["Resources"], cpus, gpus) for node in ray.nodes() if node["Alive"])
    return max(1, room // (processes() * sharing))


def _room(resources: Mapping[str, float], cpus: int, gpus: float) -> int:
    """How many actors a node has room for; one that takes a part of a GPU takes it of one alone."""
    by_cpus, has = int(resources.get("CPU", 0)) // cpus, int(resources.get("GPU", 0))
    if not gpus:
        return by_cpus
    return min(by_cpus, has * int(1 / gpus) if gpus < 1 else int(has / gpus))


def _join(config: RayConfig) -> None:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")
    address = config.address or os.environ.get("RAY_ADDRESS")
    key = "execution.ray.address" if config.address else "RAY_ADDRESS"
    quiet: dict[str, Any] = {"log_to_driver": False, "logging_level": logging.WARNING}
    if address in (None, _HERE):
        if processes() > 1:
            raise UserError(
                "execution.ray.address: several processes train, and each would start a Ray of its own; run `ray start "
                "--head` first, and set it to auto"
            )
        ray.init(address=_HERE, namespace=_OWN, num_cpus=os.cpu_count(), include_dashboard=False, **quiet)
        return
    try:
        host, _, port = address.rpartition(":")
        if "/" not in host and port.isdecimal():  # not ray://HOST:PORT
            socket.create_connection((host.strip("[]"), int(port)), _TO_REACH_S).close()
        with _one_try():
            ray.init(address=address, **quiet)
    except (OSError, RuntimeError, ValueError, lost.RayError) as error:
        said = str(error).strip().partition("\n")[0]
        raise UserError(
            f"{key}: no cluster at {address}: {said}; give the address that `ray start --head` printed, or `{_HERE}` "
            "for a Ray of this machine"
        ) from None


@contextmanager
def _one_try() -> Iterator[None]:
    """Let Ray ask once, unless the environment says how often: what listens and does not answer is not Ray."""
    if _TRIES_TO_JOIN in os.environ:
        yield
        return
    os.environ[_TRIES_TO_JOIN] = "1"
    try:
        yield
    finally:
        del os.environ[_TRIES_TO_JOIN]
