"""How many actors a pool has, and that each of several pools gets its own."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("ray")
from orchestai.cluster import joining
from orchestai.cluster.joining import actors_for


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
