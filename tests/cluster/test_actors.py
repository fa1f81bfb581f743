"""A pool of actors, here without a cluster: which of them are let in, and that a failed call leaves its seat."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import pytest

from orchestai.cluster.facts import Facts, version_of
from orchestai.config import RayConfig
from orchestai.errors import UserError

pytest.importorskip("ray")
from orchestai.cluster import actors
from orchestai.cluster.actors import ActorKind, ActorPool

ALIKE = Facts("a", {"torch": version_of("torch")})


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
    def __init__(self, facts: Facts) -> None:
        self.facts = Method(lambda: facts)
        self.double = Method(lambda number: 2 * number)
        self.close = Method(lambda: None)


@contextmanager
def pool(patch: pytest.MonkeyPatch, *facts: Facts) -> Iterator[ActorPool[Facts]]:
    """One of an actor with each of these facts, each with one call at a time."""
    left = iter(facts)
    patch.setattr(ActorPool, "_spawn", lambda self: Actor(next(left)))
    patch.setattr(actors.ray, "kill", lambda actor: None)
    opened: ActorPool[Facts] = ActorPool(ActorKind(Actor, None, 1, 0.0), RayConfig(wait_s=10), len(facts), in_flight=1)
    try:
        yield opened
    finally:
        opened.close()


def test_a_call_that_cannot_be_sent_leaves_its_seat_to_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    with pool(monkeypatch, ALIKE) as opened:
        with pytest.raises(TypeError):
            opened.start("double", None).result(10)
        assert opened.start("double", 3).result(10) == 6


def test_an_actor_of_another_version_than_this_process_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Though all actors are alike: they would sample or judge otherwise than the command that asks them."""
    others = [replace(ALIKE, name=name, versions={"torch": "1.0"}) for name in "bc"]
    here = re.escape(version_of("torch"))
    with pytest.raises(UserError, match=rf"[bc] has torch 1\.0, this process has {here}"), pool(monkeypatch, *others):
        pass


def test_how_torch_was_built_makes_no_other_version(monkeypatch: pytest.MonkeyPatch) -> None:
    """Learning on a GPU, sampling on CPUs."""
    monkeypatch.setattr("orchestai.cluster.facts.version", lambda package: "2.13.0+cu130")
    assert Facts("a", {"torch": "2.13.0"}).difference_here() == ""
