"""A pool of actors, here without a cluster: which of them are let in, and that a failed call leaves its seat."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pytest

from orchestai.cluster.host import version_of
from orchestai.errors import UserError

pytest.importorskip("ray")
from orchestai.cluster import actors
from orchestai.cluster.actors import ActorPool, actors_for

HERE = version_of("orchestai")


@dataclass(frozen=True)
class Facts:
    name: str

    def difference(self, other: Facts) -> str:
        return ""


class Method:
    """A method of an actor as Ray's handles have it."""

    def __init__(self, does: Callable[..., Any]) -> None:
        self._does = does

    def remote(self, *args: Any) -> Any:
        result = self._does(*args)

        async def replied() -> Any:
            return result

        return replied()


class Actor:
    """One with this OrchestAI, which doubles numbers."""

    def __init__(self, version: str = HERE) -> None:
        self.installed = Method(lambda: ("b", version))
        self.open = Method(lambda: Facts("b"))
        self.call = Method(lambda method, number: {"double": 2 * number}[method])
        self.close = Method(lambda: None)


@contextmanager
def pool(patch: pytest.MonkeyPatch, seats: int, *made: Any) -> Iterator[ActorPool]:
    """One that makes these actors, one after another, each with one call at a time."""
    left = iter(made)
    patch.setattr(ActorPool, "_spawn", lambda self: next(left))
    patch.setattr(actors.ray, "kill", lambda actor: None)
    patch.setattr(actors, "WAIT_S", 1.0)
    opened = ActorPool(Actor, None, cpus=1, seats=seats, in_flight=1)
    try:
        yield opened
    finally:
        opened.close()


def test_a_call_that_cannot_be_sent_leaves_its_seat_to_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    with pool(monkeypatch, 1, Actor()) as opened:
        with pytest.raises(TypeError):
            opened.start("double", None).result(10)
        assert opened.start("double", 3).result(10) == 6


@pytest.mark.parametrize(
    ("there", "said"),
    [
        ("0.0.9 (source 01234567)", "b has orchestai 0.0.9 (source 01234567), this process has {here}:"),
        ("", "b has no orchestai, this process has {here}: install the same version"),
    ],
)
def test_an_actor_of_another_version_than_this_process_is_refused_before_it_is_opened(
    monkeypatch: pytest.MonkeyPatch, there: str, said: str
) -> None:
    """Though all actors are alike: they would judge otherwise than the command that asks them."""
    others = [Actor(there) for _ in range(2)]
    for other in others:
        other.open = Method(lambda: pytest.fail("it was opened"))
    with (
        pytest.raises(UserError, match=re.escape("execution.ray: " + said.format(here=HERE))),
        pool(monkeypatch, 2, *others),
    ):
        pass


def node(*, alive: bool = True, **resources: float) -> dict[str, Any]:
    return {"Alive": alive, "Resources": resources}


NODES = [node(CPU=16.0), node(CPU=3.0), node(CPU=64.0), node(alive=False, CPU=64.0)]


@pytest.mark.parametrize(("cpus", "room"), [(1, 83), (2, 41), (32, 2), (100, 1)])
def test_actors_are_as_many_as_nodes_have_cpus_for(monkeypatch: pytest.MonkeyPatch, cpus: int, room: int) -> None:
    monkeypatch.setattr(actors.ray, "nodes", lambda: NODES)
    assert actors_for(None, cpus) == room
    assert actors_for(7, cpus) == 7
