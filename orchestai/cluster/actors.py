"""Actors on the nodes of a Ray cluster: how it is joined, what they keep of their environment, and which is asked.

One that is lost is replaced.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections.abc import Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import ray
from ray import cloudpickle
from ray import exceptions as lost

from orchestai.cluster import host
from orchestai.config import RayConfig
from orchestai.config.aliases import processes
from orchestai.errors import InfrastructureError, UserError
from orchestai.threads import BackgroundLoop

_LOG = logging.getLogger(__name__)
WAIT_S = 120.0
"""Longest wait for actors, at the beginning and where all are lost."""
_TRIES = 3
"""Actors to which a call goes that lose it; then it is unscorable."""
_CALLS_AT_A_TIME = 10_000
"""Of an actor, by Ray's count; ours is lower."""
_TO_CLOSE_S = 10.0
cloudpickle.register_pickle_by_value(host)


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


class ActorPool:
    """Passes calls on to the actor with the fewest of them. Safe to use from many threads.

    Args:
        cls: what runs in each actor; its methods are coroutines, among them `facts`, which opens what the actor needs
            and gives its `name` and its `difference` from other facts, and `close`.
        setup: the argument with which it is made.
        cpus: that each takes of its node; any number in a Ray of this process's own.
        seats: number of actors.
        in_flight: most calls that one actor has at a time; further ones wait.

    Attributes:
        seats: as given.
        facts: of the actors.

    Raises:
        UserError: there is no actor in time, one cannot open what it needs, or they are not like this process or each
            other.
    """

    def __init__(self, cls: type, setup: Any, *, cpus: int, seats: int, in_flight: int) -> None:
        self.seats = seats
        self._made = cloudpickle.dumps((cls, setup))
        self._cpus = cpus
        self._limit = in_flight
        self._version = host.version_of("orchestai")
        self._loop = BackgroundLoop()
        self._seats: list[_Seat] = []
        self._joining: set[asyncio.Task[None]] = set()
        self._is_open = False
        self.facts: Any = None
        try:
            self._loop.run(self._open())
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

    async def _open(self) -> None:
        self._room = asyncio.Condition()
        for _ in range(self.seats):
            self._seats.append(_Seat(self._spawn()))
        done, late = await asyncio.wait(map(self._awaiting, self._seats), timeout=WAIT_S)
        for job in done:
            job.result()
        if not done:
            raise UserError(
                f"execution.ray: none of {self.seats} actors came up within {WAIT_S:g} s; look at "
                "`ray status`, or free CPUs on the cluster"
            )
        if late:
            _LOG.warning("%d of %d actors have no room on the cluster yet; going on without", len(late), self.seats)
        self._is_open = True

    def _spawn(self) -> Any:
        # What another pool of a Ray of this process's own has would be waited for in vain.
        own = ray.get_runtime_context().namespace == _OWN
        actor = ray.remote(
            num_cpus=0 if own else self._cpus,
            max_restarts=0,
            max_concurrency=_CALLS_AT_A_TIME,
            scheduling_strategy="SPREAD",
        )(host.Host)
        return actor.remote(self._made)

    def _awaiting(self, seat: _Seat) -> asyncio.Task[None]:
        """The task in which the actor of a seat comes up."""
        job = asyncio.ensure_future(self._join(seat))
        self._joining.add(job)

        def ended(job: asyncio.Task[None]) -> None:
            self._joining.discard(job)
            if not job.cancelled():
                job.exception()  # taken note of: of several, the first is raised

        job.add_done_callback(ended)
        return job

    async def _join(self, seat: _Seat) -> None:
        """Let the actor of a seat be asked as soon as it has opened what it needs, if it is like the others."""
        while not seat.is_up:
            try:
                name, there = await seat.actor.installed.remote()
                if there != self._version:
                    has = f"orchestai {there}" if there else "no orchestai"
                    raise _refused(f"{name} has {has}, this process has {self._version}: install the same version")
                facts = await seat.actor.open.remote()
                self.facts = self.facts or facts
                if difference := facts.difference(self.facts):
                    raise _refused(difference)
                async with self._room:
                    seat.is_up = True
                    self._room.notify_all()
            except _lost():
                await asyncio.sleep(1.0)
                seat.actor = self._spawn()
            except Exception as error:
                cause = error.cause if isinstance(error, lost.RayTaskError) else error
                if not self._is_open:
                    raise cause from None
                _LOG.warning("an actor of the cluster is left out: %s", cause)
                ray.kill(seat.actor)
                return
        if self._is_open:
            _LOG.warning("an actor was late or lost; %s is in its place", facts.name)

    async def _call(self, method: str, args: tuple[Any, ...]) -> Any:
        reason = ""
        for _ in range(_TRIES):
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
                    self._awaiting(seat)
            finally:
                async with self._room:
                    seat.in_flight -= 1
                    self._room.notify_all()
        raise InfrastructureError("node", f"lost by {_TRIES} actors of the cluster; the last: {reason}")

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
                    await asyncio.wait_for(self._room.wait(), None if up else WAIT_S)
                except asyncio.TimeoutError:
                    if not any(seat.is_up for seat in self._seats):
                        reason = f"no actor of the cluster is left, and none came up within {WAIT_S:g} s"
                        raise InfrastructureError("node", reason) from None

    async def _close(self) -> None:
        for job in self._joining:
            job.cancel()
        actors = [seat.actor for seat in self._seats]
        closing = [asyncio.ensure_future(_ended(actor)) for actor in actors]
        await asyncio.wait(closing, timeout=_TO_CLOSE_S)
        for actor in actors:
            ray.kill(actor)


def _refused(difference: str) -> UserError:
    return UserError(f"execution.ray: {difference}")


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


def actors_for(number: int | None, cpus: int) -> int:
    """How many actors a pool has.

    Args:
        number: as configured; None for as many as the nodes have CPUs for, shared among processes.
        cpus: of each actor.
    """
    if number is not None:
        return number
    room = sum(int(node["Resources"].get("CPU", 0)) // cpus for node in ray.nodes() if node["Alive"])
    return max(1, room // processes())


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


_KEPT = frozenset({"PATH", "HOME", "USER", "LOGNAME", "SHELL", "TMPDIR", "TZ", "LD_LIBRARY_PATH", "VIRTUAL_ENV"})
_KEPT_PREFIXES = (
    *("LANG", "LC_", "PYTHON", "RAY_", "OMP_", "MKL_", "CUDA_", "NVIDIA_", "XDG_", "SSL_CERT_"),
    *("HF_HOME", "HF_HUB_", "HF_DATASETS_", "TRANSFORMERS_"),
)
"""What a process needs to run, and where models are cached. Of these names none holds a key but Ray's own token
(RAY_AUTH_TOKEN), without which an actor could not speak to its cluster."""


def keep_environment(env: Mapping[str, str]) -> None:
    """Drop all environment variables of this process but `env` and what any process needs."""
    for name in list(os.environ):
        if name not in _KEPT and not name.startswith(_KEPT_PREFIXES):
            del os.environ[name]
    os.environ.update(env)


def settle(env: Mapping[str, str], folder: Path) -> None:
    """Make this process an actor's: with no environment but `keep_environment`'s, in `folder` where the node has it."""
    keep_environment(env)
    if folder.is_dir():
        os.chdir(folder)


def given_environment(names: tuple[str, ...]) -> dict[str, str]:
    """The variables of `execution.ray.env` with their values here.

    Raises:
        UserError: one is not set.
    """
    if missing := [name for name in names if name not in os.environ]:
        raise UserError(f"execution.ray.env: {missing[0]} is not set here; export it, or take it out of the list")
    return {name: os.environ[name] for name in names}
