"""What samples completions while a language model learns by reward: keys that planners and agents share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias, TypeVar
from urllib.parse import urlsplit

from pydantic import BeforeValidator, Field, field_validator, model_validator
from typing_extensions import Self

from orchestai.config.rl import RlConfig
from orchestai.config.section import Section, refuse_secret_url

WeightFormat: TypeAlias = Literal["float32", "bfloat16", "float16"]


def _no(value: Any) -> Any:
    """YAML reads a bare `no` as false."""
    return "no" if value is False else value


MixedPrecision: TypeAlias = Annotated[Literal["no", "bf16", "fp16"], BeforeValidator(_no)]

R = TypeVar("R", bound=RlConfig)
_SET_ANYWAY = (
    *("model", "dtype", "logprobs_mode", "generation_config", "worker_extension_cls"),
    *("enable_lora", "max_lora_rank", "max_loras", "distributed_executor_backend"),
)
"""Arguments of `vllm.LLM` that `VllmEngine` gives by itself."""


class VllmConfig(Section):
    """Phase 2 with the backends `vllm` and `vllm_server`."""

    sync_dir: Path | None = None
    """Folder through which weights reach the engine, seen by a server under the same path; in memory (/dev/shm) it is
    faster. null is `sync` in the output folder."""
    canary_tolerance: float = Field(0.1, gt=0)
    """Nats per token by which engine and policy may differ on what the engine writes after a fixed prompt."""

    base_url: str = "http://localhost:8000"
    """vllm_server: where it listens; its key, if it wants one, is in the variable VLLM_API_KEY."""
    engine_options: dict[str, Any] = Field(default={})
    """Further arguments of `vllm.LLM`, also for the server that `orchestai launch vllm` starts: `enforce_eager`,
    `gpu_memory_utilization` (.3 of a GPU for an engine in this process; the rest is for training),
    `tensor_parallel_size`, and `max_model_len`, where the GPU has no room for a whole context's keys and values."""

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

    backend: Literal["transformers", "vllm", "vllm_server"] = "transformers"
    """Phase 2: what writes. `transformers`: the model that learns. `vllm`: an engine in this process. `vllm_server`:
    one behind a server."""
    vllm: VllmConfig = VllmConfig()

    @property
    def samples_elsewhere(self) -> bool:
        """Whether an engine samples, which computes otherwise than what learns."""
        return self.backend in ("vllm", "vllm_server")

    def with_correction(self, phase2: R) -> R:
        """The settings, which correct what an engine samples unless they say how."""
        if not self.samples_elsewhere or phase2.sampler_correction is not None:
            return phase2
        return phase2.model_copy(update={"sampler_correction": "token_truncate"})


class LoraConfig(Section):
    """Low-rank adapters: small matrices learn, and the model itself stays as it is."""

    rank: int = Field(16, ge=1, le=4096)
    """Width of the adapters."""
    alpha: float = Field(32.0, gt=0, allow_inf_nan=False)
    """What adapters add is scaled by alpha / rank."""
    targets: tuple[str, ...] = ("all-linear",)
    """Names of the modules that get adapters, such as [q_proj, v_proj]; `all-linear` is all but the output layer."""


class TrainedModelConfig(BackendConfig):
    """A causal language model that learns: keys that planners and agents share."""

    dtype: WeightFormat = "float32"
    """Dtype of the weights; adapters and the value head are float32. A model that learns whole needs float32, or a
    layout that learns in it."""
    mixed_precision: MixedPrecision | None = None
    """Dtype in which matrices are multiplied; null leaves it to `accelerate launch`."""
    lora: LoraConfig | None = None
    """Train adapters; null trains the whole model, as `tiny` needs, which has learned nothing before."""
    load_in_4bit: bool = False
    """Keep the model in 4 bits under its adapters (QLoRA), on a GPU or a CPU; needs the package bitsandbytes."""
    gradient_checkpointing: bool = False
    """Compute activations twice instead of keeping them: less memory, a third more time."""

    @model_validator(mode="after")
    def _adapters_on_4_bits(self) -> Self:
        if self.load_in_4bit and self.lora is None:
            raise ValueError("load_in_4bit needs adapters; set lora.rank")
        return self
