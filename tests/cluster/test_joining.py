"""How many actors a pool has."""

from __future__ import annotations

from typing import Any

import pytest

pytest.importorskip("ray")
from orchestai.cluster import actors
from orchestai.cluster.actors import actors_for


def node(*, alive: bool = True, **resources: float) -> dict[str, Any]:
    return {"Alive": alive, "Resources": resources}


NODES = [node(CPU=16.0), node(CPU=3.0), node(CPU=64.0), node(alive=False, CPU=64.0)]


@pytest.mark.parametrize(("cpus", "room"), [(1, 83), (2, 41), (32, 2), (100, 1)])
def test_actors_are_as_many_as_nodes_have_cpus_for(monkeypatch: pytest.MonkeyPatch, cpus: int, room: int) -> None:
    monkeypatch.setattr(actors.ray, "nodes", lambda: NODES)
    assert actors_for(None, cpus) == room
    assert actors_for(7, cpus) == 7
