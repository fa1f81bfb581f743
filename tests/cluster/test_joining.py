"""How many actors a pool has, and that each of several pools gets its own."""

from __future__ import annotations

from contextlib import ExitStack, closing
from typing import Any

import pytest

pytest.importorskip("ray")
from orchestai.cluster import joining
from orchestai.cluster.actors import ActorKind, ActorPool
from orchestai.cluster.environment import Facts
from orchestai.cluster.joining import actors_for, joined
from orchestai.config import RayConfig


def node(*, alive: bool = True, **resources: float) -> dict[str, Any]:
    return {"Alive": alive, "Resources": resources}


NODES = [node(CPU=16.0, GPU=2.0), node(CPU=3.0, GPU=4.0), node(CPU=64.0), node(alive=False, CPU=64.0, GPU=8.0)]


@pytest.mark.parametrize(
    ("cpus", "gpus", "room"),
    [(1, 0.0, 83), (2, 0.0, 41), (1, 1.0, 5), (2, 1.0, 3), (1, 2.0, 3), (1, 0.4, 7), (1, 0.1, 19), (1, 16.0, 1)],
)
def test_actors_are_as_many_as_nodes_have_cpus_and_gpus_for(
    monkeypatch: pytest.MonkeyPatch, cpus: int, gpus: float, room: int
) -> None:
    """One on a GPU would else wait for it for ever, beside as many others as there are CPUs."""
    monkeypatch.setattr(joining.ray, "nodes", lambda: NODES)
    assert actors_for(None, cpus, gpus) == room
    assert actors_for(None, cpus, gpus, sharing=2) == max(1, room // 2)
    assert actors_for(7, cpus, gpus, sharing=2) == 7


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_ray_of_the_process_alone_has_actors_for_all_its_pools(monkeypatch: pytest.MonkeyPatch) -> None:
    """As executions and sampling, or the policies of several roles; the second once waited for the first's CPUs."""

    class Echo:
        """Defined here, so that it reaches an actor, which cannot import the tests."""

        def __init__(self, setup: str) -> None:
            self._setup = setup

        async def facts(self) -> Facts:
            return Facts(self._setup)

        async def echo(self, said: str) -> str:
            return self._setup + said

        async def close(self) -> None:
            pass

    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    monkeypatch.setattr(joining.os, "cpu_count", lambda: 1)
    config = RayConfig(wait_s=100)
    with ExitStack() as stack:
        pools = []
        for name in "ab":
            stack.enter_context(joined(config))
            seats = actors_for(None, 1, 0.0, sharing=2)
            kind = ActorKind(Echo, name, cpus=1, gpus=0.0)
            pools.append(stack.enter_context(closing(ActorPool[Facts](kind, config, seats, in_flight=1))))
        assert [pool.seats for pool in pools] == [1, 1]
        assert [pool.start("echo", "!").result(60) for pool in pools] == ["a!", "b!"]
    assert not joining.ray.is_initialized()
