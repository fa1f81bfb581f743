"""The server of vLLM that the rollouts of a configuration ask."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from orchestai.agents import registry
from orchestai.config import TINY, BackendConfig, Config, LoraConfig, ModelConfig
from orchestai.errors import UserError
from orchestai.launch.asked import asked
from orchestai.lm.backends.vllm_engine import engine_rank
from orchestai.lm.backends.vllm_worker import EXTENSION
from orchestai.lm.loading import find_source
from orchestai.lm.model_keys import AGENTS, PLANNER, ModelKeys


@dataclass(frozen=True)
class Server:
    """A server of vLLM: its arguments, and the environment variables that let it take over weights."""

    arguments: tuple[str, ...]
    environment: dict[str, str]

    @property
    def command(self) -> list[str]:
        return [sys.executable, "-m", "vllm.entrypoints.openai.api_server", *self.arguments]


def server_for(path: Path, words: Sequence[str] = ()) -> Server:
    """What the backend `vllm_server` of a planner's or agents' configuration needs; see docs/machines/rollouts.md.

    Args:
        path: the configuration, or a recipe of MT-GRPO.
        words: overrides, the same as those of the training.

    Raises:
        UserError: the configuration cannot be read, asks no server, or its model is not on a disk.
    """
    _, config = asked(path, words)
    if isinstance(config, Config):
        language = config.planner.language
        _refuse_without_server(language, PLANNER)
        source = _source(language.model, config.workers.models, config.workers.models_dir, PLANNER)
        return _server(language, source, _Weights(language.dtype, language.lora, 1), PLANNER)
    _refuse_without_server(config.model, AGENTS)
    known = config.workers.models if config.workers else {}
    source = _source(config.model.name, known, config.cache_dir, AGENTS)
    return _server(
        config.model, source, _Weights(config.model.dtype, config.adapters, registry.policies(config)), AGENTS
    )


def flags(options: Mapping[str, Any]) -> list[str]:
    """Arguments of `vllm.LLM` as those of the command: {"max_num_seqs": 8, "enable_chunked_prefill": False}.

    None leaves an argument to vLLM, as it does there.
    """
    words: list[str] = []
    for name, value in options.items():
        flag = name.replace("_", "-")
        if value is None:
            continue
        if isinstance(value, bool):
            words.append(f"--{flag}" if value else f"--no-{flag}")
        else:
            words += [f"--{flag}", value if isinstance(value, str) else json.dumps(value)]
    return words


@dataclass(frozen=True)
class _Weights:
    """What the server holds.

    Attributes:
        dtype: what it computes in.
        lora: the adapters that are learned; None where the whole model is.
        adapters: how many of them.
    """

    dtype: str
    lora: LoraConfig | None
    adapters: int


def _refuse_without_server(settings: BackendConfig, keys: ModelKeys) -> None:
    if settings.backend != "vllm_server":
        raise UserError(f"{keys.section}.backend={settings.backend}: asks no server; set it to vllm_server")


def _source(name: str, known: Mapping[str, ModelConfig], cache_dir: Path, keys: ModelKeys) -> str:
    if name == TINY:
        raise UserError(f"{keys.name}={TINY}: is made anew in every process, and on no disk; choose another model")
    return find_source(name, known, cache_dir, keys.name)


def _server(settings: BackendConfig, source: str, weights: _Weights, keys: ModelKeys) -> Server:
    url = urlsplit(settings.vllm.base_url)
    port = url.port or (443 if url.scheme == "https" else 80)  # as the client of the training has it
    arguments = ["--model", source, "--host", url.hostname or "localhost", "--port", str(port)]
    arguments += ["--dtype", weights.dtype, "--logprobs-mode", "processed_logprobs"]
    arguments += [
        "--worker-extension-cls",
        EXTENSION,
        "--tensor-parallel-size",
        str(settings.vllm.tensor_parallel_size),
    ]
    arguments += flags(settings.vllm.engine_options)
    if weights.lora is None:
        return Server(tuple(arguments), {"VLLM_SERVER_DEV_MODE": "1"})
    rank = engine_rank(weights.lora.rank, keys.section)
    arguments += ["--enable-lora", "--max-lora-rank", str(rank), "--max-loras", str(weights.adapters)]
    return Server(tuple(arguments), {"VLLM_ALLOW_RUNTIME_LORA_UPDATING": "1"})
