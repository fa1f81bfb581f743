"""What samples completions while a language model learns by reward: keys that planners and agents share."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, TypeVar
from urllib.parse import urlsplit

from pydantic import Field, field_validator

from orchestai.config.rl import RlConfig
from orchestai.config.secrets import refuse_secret_url
from orchestai.config.section import Section

R = TypeVar("R", bound=RlConfig)
_SET_ANYWAY = (
    *("model", "dtype", "tensor_parallel_size", "gpu_memory_utilization", "logprobs_mode"),
    *("generation_config", "worker_extension_cls", "enable_lora", "max_lora_rank", "max_loras"),
    "distributed_executor_backend",
)
"""Arguments of `vllm.LLM` that `VllmEngine` gives by itself."""


class HandoverConfig(Section):
    """How weights reach what samples elsewhere, and how that is checked."""

    sync_dir: Path | None = None
    """Folder through which weights reach the engine; a server, or the nodes of a cluster, must see it under the same
    path. null is `sync` in the output folder; a folder in memory (/dev/shm) is faster on one machine."""
    canary_tolerance: float = Field(0.1, gt=0)
    """Nats per token by which engine and policy may differ on what the engine writes after a fixed prompt, on average,
    checked whenever it has taken over weights."""


class RaySamplingConfig(HandoverConfig):
    """Phase 2 with the backend `ray`: actors on the cluster of `execution.ray`, each with a copy of the model."""

    num_workers: int | None = Field(None, ge=1)
    """Actors of each process and each policy that learns; null takes what the cluster has CPUs and GPUs for, shared
    among a training's processes and policies. To be set, as `execution.ray.num_workers` is, where executions run on the
    same cluster."""
    cpus_per_worker: int = Field(1, ge=1)
    """CPUs of an actor, a thread on each: small models write more with many actors than with many threads."""
    gpus_per_worker: float = Field(0.0, ge=0)
    """GPUs of an actor, which then samples on one."""


class VllmConfig(HandoverConfig):
    """Phase 2 with the backends `vllm` and `vllm_server`."""

    base_url: str = "http://localhost:8000"
    """vllm_server: where it listens."""
    api_key_env: str = "VLLM_API_KEY"
    """vllm_server: the environment variable that holds its key, if it wants one."""
    timeout_s: float = Field(600.0, gt=0)
    """vllm_server: seconds before a completion or a handover of weights counts as failed."""
    tensor_parallel_size: int = Field(1, ge=1)
    """GPUs over which the engine is spread, or the server that `orchestai launch vllm` starts."""
    gpu_memory_utilization: float = Field(0.3, gt=0, lt=1)
    """vllm: share of a GPU's memory that an engine takes; the rest is for training."""
    engine_options: dict[str, Any] = Field(default={})
    """Further arguments of `vllm.LLM`, such as `enforce_eager` or `max_num_batched_tokens`, also for the server that
    `orchestai launch vllm` starts. `max_model_len` shortens a context whose keys and values the GPU has no room for.
    `weight_transfer_config` lets weights go from GPU to GPU, without a folder."""

    _no_secret_url = field_validator("base_url")(refuse_secret_url)

    @field_validator("base_url")
    @classmethod
    def _where_a_server_can_be(cls, url: str) -> str:
        parts = urlsplit(url)
        try:
            reachable = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
        except ValueError:  # a port that is none
            reachable = False
        if not reachable:
            raise ValueError("write http://HOST:PORT")
        if parts.path.rstrip("/").endswith("/v1"):
            raise ValueError("leave out /v1, beside which weights are handed over; write http://HOST:PORT")
        return url

    @field_validator("engine_options")
    @classmethod
    def _not_what_is_set_anyway(cls, options: dict[str, Any]) -> dict[str, Any]:
        for name in options:
            if not name.isidentifier():
                raise ValueError(f"{name} is no argument of vllm.LLM; write it as {name.strip('-').replace('-', '_')}")
            if name in _SET_ANYWAY:
                raise ValueError(f"{name} follows from what is trained, or has a key of its own; leave it out")
        return options


class BackendConfig(Section):
    """The part of a language model's section that says what samples from it in phase 2."""

    backend: Literal["transformers", "vllm", "vllm_server", "ray"] = "transformers"
    """Phase 2: what writes. `transformers`: the model that learns. `vllm`: an engine in this process. `vllm_server`:
    one behind a server. `ray`: copies of the model on the nodes of a cluster. All of these take over the weights after
    every update."""
    vllm: VllmConfig = VllmConfig()
    ray: RaySamplingConfig = RaySamplingConfig()

    @property
    def samples_elsewhere(self) -> bool:
        """Whether an engine samples, which computes otherwise than what learns."""
        return self.backend in ("vllm", "vllm_server", "ray")

    @property
    def handover(self) -> HandoverConfig:
        """How weights reach what samples elsewhere."""
        return self.ray if self.backend == "ray" else self.vllm

    def with_correction(self, phase2: R) -> R:
        """The settings, which correct what an engine samples unless they say how."""
        if not self.samples_elsewhere or phase2.sampler_correction is not None:
            return phase2
        return phase2.model_copy(update={"sampler_correction": "token_truncate"})
