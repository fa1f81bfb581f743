"""Actors on the nodes of a Ray cluster, and which of them is asked; one that is lost is replaced."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import ray
from ray import cloudpickle
from ray import exceptions as lost

from orchestai.cluster import host
from orchestai.cluster.environment import Facts
from orchestai.cluster.joining import is_own
from orchestai.config import RayConfig
from orchestai.errors import InfrastructureError, UserError
from orchestai.threads import BackgroundLoop

_LOG = logging.getLogger(__name__)
_CALLS_AT_A_TIME = 10_000
"""Of an actor, by Ray's count; ours is lower."""
_TO_CLOSE_S = 10.0
cloudpickle.register_pickle_by_value(host)


F = TypeVar("F", bound=Facts)


@dataclass(frozen=True)
class ActorKind:
    """What runs on each node.

    Attributes:
        cls: its methods are coroutines; among them `facts`, which opens what the actor needs and gives `Facts`, and
            `close`.
        setup: the argument with which it is made.
        packages: whose versions its results depend on, beside this one's.
        cpus, gpus: that each takes of its node; of CPUs it has any number in a Ray of this process's own.
    """

    cls: type
    setup: Any
    cpus: int
    gpus: float
    packages: tuple[str, ...] = ()


@dataclass(eq=False)
class _Seat:
    """The place of one actor, which may be taken by others after it.

    Attributes:
        actor: a handle of a `Host`; its type is made when Ray runs.
        is_up: whether it can be asked.
        in_flight: calls that it works on.
    """

    actor: Any
    is_up: bool = False
    in_flight: int = 0


class ActorPool(Generic[F]):
    """Passes calls on to the actor with the fewest of them. Safe to use from many threads.

    Args:
        seats: number of actors.
        in_flight: most calls that one actor has at a time; further ones wait.

    Attributes:
        seats: as given.
        facts: of the actors.

    Raises:
        UserError: there is no actor in time, one cannot open what it needs, or they are not like this process or each
            other.
    """

    def __init__(self, kind: ActorKind, config: RayConfig, seats: int, in_flight: int) -> None:
        self.seats = seats
        self._kind = kind
        self._config = config
        self._limit = in_flight
        self._versions = {package: host.version_of(package) for package in ("orchestai", *kind.packages)}
        self._loop = BackgroundLoop()
        self._seats: list[_Seat] = []
        self._awaited: set[asyncio.Task[None]] = set()
        try:
            self.facts: F = self._loop.run(self._open())
        except BaseException:
            self.close()
            raise

    def start(self, method: str, *args: Any) -> Future[Any]:
        """What a method of an actor will return or raise.

        Raises:
            InfrastructureError: `tries` actors were lost over it, or there is none.
        """
        return self._loop.start(self._call(method, args))

    def close(self) -> None:
        """End all actors and what they run."""
        self._loop.run(self._close())
        self._loop.close()

    async def _open(self) -> F:
        self._room = asyncio.Condition()
        for _ in range(self.seats):
            self._seats.append(_Seat(self._spawn()))
        waiting = {asyncio.ensure_future(self._settle(seat)): seat for seat in self._seats}
        done, late = await asyncio.wait(waiting, timeout=self._config.wait_s)
        for opened in done:
            opened.result()
        if not done:
            raise UserError(
                f"execution.ray: none of {self.seats} actors came up within {self._config.wait_s:g} s; look at "
                "`ray status`, free CPUs and GPUs on the cluster, or raise execution.ray.wait_s"
            )
        if late:
            _LOG.warning("%d of %d actors have no room on the cluster yet; going on without", len(late), self.seats)
        facts = [opened.result() for opened in done]
        for one in facts:
            _refuse(one.difference(facts[0]))
        for opening in late:
            opening.cancel()
            self._await(waiting[opening], facts[0])
        return facts[0]

    def _spawn(self) -> Any:
        kind = self._kind
        actor = ray.remote(
            num_cpus=0 if is_own() else kind.cpus,  # what another pool of this process has would be waited for in vain
            num_gpus=kind.gpus,
            max_restarts=0,
            max_concurrency=_CALLS_AT_A_TIME,
            scheduling_strategy="SPREAD",
        )(host.Host)
        return actor.remote(cloudpickle.dumps((kind.cls, kind.setup)))

    async def _settle(self, seat: _Seat) -> F:
        """Wait until the actor of a seat has opened what it needs, with the same packages as here."""
        facts = await self._begun(seat.actor)
        await self._admit(seat)
        return facts

    async def _begun(self, actor: Any) -> F:
        try:
            name, there = await actor.installed.remote(tuple(self._versions))
            _refuse(_other_version(name, there, self._versions))
            facts: F = await actor.open.remote()
        except lost.RayTaskError as error:
            raise error.cause from None
        return facts

    async def _admit(self, seat: _Seat) -> None:
        async with self._room:
            seat.is_up = True
            self._room.notify_all()

    async def _call(self, method: str, args: tuple[Any, ...]) -> Any:
        reason = ""
        for _ in range(self._config.tries):
            seat = await self._enter()
            actor = seat.actor
            try:
                call = actor.call.remote(method, *args)
                return await call
            except lost.RayTaskError as error:
                raise error.cause from None
            except asyncio.CancelledError:
                ray.cancel(call)
                raise
            except _lost() as error:
                reason = str(error).strip().partition("\n")[0]
                if seat.actor is actor:
                    seat.is_up = False
                    ray.kill(seat.actor)
                    seat.actor = self._spawn()
                    self._await(seat, self.facts)
            finally:
                async with self._room:
                    seat.in_flight -= 1
                    self._room.notify_all()
        raise InfrastructureError("node", f"lost by {self._config.tries} actors of the cluster; the last: {reason}")

    async def _enter(self) -> _Seat:
        """The seat with the fewest calls, one more now; waits for room, and so long for an actor as it may take."""
        async with self._room:
            while True:
                up = [seat for seat in self._seats if seat.is_up]
                free = min(up, key=lambda seat: seat.in_flight, default=None)
                if free is not None and free.in_flight < self._limit:
                    free.in_flight += 1
                    return free
                try:
                    await asyncio.wait_for(self._room.wait(), None if up else self._config.wait_s)
                except asyncio.TimeoutError:
                    if not any(seat.is_up for seat in self._seats):
                        reason = f"no actor of the cluster is left, and none came up within {self._config.wait_s:g} s"
                        raise InfrastructureError("node", reason) from None

    def _await(self, seat: _Seat, like: F) -> None:
        """Let the actor of a seat be asked as soon as it is up, if it is like the others."""
        job = asyncio.ensure_future(self._joined(seat, like))
        self._awaited.add(job)
        job.add_done_callback(self._awaited.discard)

    async def _joined(self, seat: _Seat, like: F) -> None:
        while True:
            try:
                facts = await self._begun(seat.actor)
                _refuse(facts.difference(like))
                break
            except _lost():
                await asyncio.sleep(1.0)
                seat.actor = self._spawn()
            except Exception as error:
                _LOG.warning("an actor of the cluster is left out: %s", error)
                ray.kill(seat.actor)
                return
        _LOG.warning("an actor was late or lost; %s is in its place", facts.name)
        await self._admit(seat)

    async def _close(self) -> None:
        for job in self._awaited:
            job.cancel()
        actors = [seat.actor for seat in self._seats]
        closing = [asyncio.ensure_future(_ended(actor)) for actor in actors]
        await asyncio.wait(closing, timeout=_TO_CLOSE_S)
        for actor in actors:
            ray.kill(actor)


def _other_version(name: str, there: Mapping[str, str], here: Mapping[str, str]) -> str:
    """Which package an actor has in another version than this process; empty where it has all of them in the same."""
    for package, version in here.items():
        if there[package] != version:
            has = f"{package} {there[package]}" if there[package] else f"no {package}"
            return f"{name} has {has}, this process has {version}: install the same version"
    return ""


def _refuse(difference: str) -> None:
    if difference:
        raise UserError(f"execution.ray: {difference}")


async def _ended(actor: Any) -> None:
    with suppress(lost.RayError):
        await actor.close.remote()


def _lost() -> tuple[type[Exception], ...]:
    """What Ray raises where the fault is an actor's, its process's or its node's."""
    return (
        lost.RayActorError,
        lost.WorkerCrashedError,
        lost.NodeDiedError,
        lost.LocalRayletDiedError,
        lost.ObjectLostError,
        lost.OutOfMemoryError,
    )
