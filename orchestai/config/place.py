"""Where programs and workflows run: in this process, or on the nodes of a Ray cluster."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from orchestai.config.section import Section


class RayConfig(Section):
    """backend ray: actors that each hold a sandbox and the workers. Nodes need this version of OrchestAI. What samples
    there (`planner.language.backend` or `model.backend` ray) takes `address`, `env`, `tries` and `wait_s` from here."""

    address: str | None = None
    """HOST:PORT of a cluster's head, or `auto` on one of its nodes; `local` starts Ray on this machine, as null does
    where there is no RAY_ADDRESS to join."""
    num_workers: int | None = Field(None, ge=1)
    """Actors of each process, each with `sandbox.workers` programs at a time and as many CPUs; null takes what the
    cluster has CPUs and GPUs for, shared among the processes of a training."""
    gpus_per_worker: float = Field(0.0, ge=0)
    """GPUs of an actor, for workers that are models run by itself."""
    env: tuple[str, ...] = ()
    """Environment variables of this machine that actors get, such as [OPENAI_API_KEY]. Beside these they keep what a
    process needs to run (PATH, HOME, PYTHONPATH, caches of models), and nothing else."""
    tries: int = Field(3, ge=1)
    """Actors to which an execution, a program or a share of what is sampled goes that lose it, since their node or they
    died; then it is unscorable."""
    wait_s: float = Field(120.0, gt=0)
    """Seconds to wait for actors, at the beginning and where all are lost."""


class PlaceConfig(Section):
    backend: Literal["local", "ray"] = "local"
    """Where programs and workflows run. `ray`: on the nodes of a cluster, with equal results (docs/machines/ray.md)."""
    ray: RayConfig = RayConfig()
