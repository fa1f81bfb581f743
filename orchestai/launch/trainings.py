"""What a training is asked for, as its command will read it, and the server of vLLM that its rollouts ask."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from orchestai.agents import registry
from orchestai.agents.recipes import is_comlrl, is_recipe, load_agent_config, named_paths
from orchestai.config import TINY, BackendConfig, Config, load_config, read
from orchestai.config.agents import AgentConfig
from orchestai.config.aliases import SHORT
from orchestai.config.backend import TrainedModelConfig
from orchestai.errors import UserError
from orchestai.lm.backends.vllm_engine import engine_rank
from orchestai.lm.backends.vllm_worker import EXTENSION
from orchestai.lm.loading import find_source
from orchestai.lm.local_models import AGENTS, PLANNER

PHASE1, PHASE2 = "phase1", "phase2"
_HERE = ("localhost", "127.0.0.1", "::1")


def asked(path: Path, words: Sequence[str] = (), train: str | None = None) -> tuple[str, Config | AgentConfig]:
    """What is trained, `phase1`, `phase2` or a workflow of agents, and its configuration.

    Args:
        words: overrides.
        train: which of these; without, what the file is for: the workflow that it names, or phase 2 of a planner.
    """
    if train == PHASE1:
        return PHASE1, load_config(path, words)
    values = read(path)
    of_agents = "agents" in values or is_recipe(values) or is_comlrl(values)
    if train == PHASE2 or (train is None and not of_agents):
        return PHASE2, load_config(path, SHORT.replace(words))
    if train is not None and train not in registry.WORKFLOWS and ":" not in train:
        known = ", ".join((PHASE1, PHASE2, *registry.WORKFLOWS))
        raise UserError(f"--train {train}: there are {known}; or write module:Class")
    config = load_agent_config(train or "", path, words)
    if not config.agents.workflow:
        raise UserError(f"--config {path}: agents.workflow is not set; set it, or say --train WORKFLOW")
    return config.agents.workflow, config


def paths_of(config: Config | AgentConfig) -> dict[str, Path]:
    """Files and folders of this machine that a training reads, by the key that names them; both as `asked` gives."""
    named: dict[str, Any]
    if isinstance(config, Config):
        named = {"tasks.path": config.tasks.path, "planner.language.model": config.planner.language.model}
    else:
        named = named_paths(config)
    return {key: Path(name) for key, name in named.items() if isinstance(name, str | Path) and Path(name).exists()}


def served_here(config: Config | AgentConfig) -> str | None:
    """The key and URL of the server of vLLM that a training by reward asks on its own machine; None without one."""
    settings, section = _sampling(config)
    if settings is None or settings.backend != "vllm_server":
        return None
    url = settings.vllm.base_url
    return f"{section}.vllm.base_url={url}" if urlsplit(url).hostname in _HERE else None


def extras_of(config: Config | AgentConfig) -> dict[str, str]:
    """Packages that a training by reward needs beside OrchestAI's own, by the word that asks for each."""
    settings, section = _sampling(config)
    needs: dict[str, str] = {}
    if settings is not None and settings.backend == "vllm":
        needs[f"{section}.backend=vllm"] = "vllm"
    if config.execution.backend == "ray":
        needs["execution.backend=ray"] = "ray"
    return needs


def _sampling(config: Config | AgentConfig) -> tuple[BackendConfig | None, str]:
    """What says who samples, and its section; None where no language model is trained."""
    if isinstance(config, AgentConfig):
        return config.model, AGENTS.section
    return (config.planner.language if config.planner.kind == "language" else None), PLANNER.section


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
    """
    _, config = asked(path, words)
    if isinstance(config, Config):
        settings: TrainedModelConfig = config.planner.language
        keys, name = PLANNER, config.planner.language.model
        known, folder, lora, adapters = config.workers.models, config.workers.models_dir, settings.lora, 1
    else:
        settings, keys, name = config.model, AGENTS, config.model.name
        known, folder = config.workers.models if config.workers else {}, config.cache_dir
        lora, adapters = config.adapters, registry.policies(config)
    if settings.backend != "vllm_server":
        raise UserError(f"{keys.section}.backend={settings.backend}: asks no server; set it to vllm_server")
    if name == TINY:
        raise UserError(f"{keys.name}={TINY}: is made anew in every process, and on no disk; choose another model")
    url = urlsplit(settings.vllm.base_url)
    port = url.port or (443 if url.scheme == "https" else 80)  # as the client of the training has it
    arguments = ["--model", find_source(name, known, folder, keys.name)]
    arguments += ["--host", url.hostname or "localhost", "--port", str(port)]
    arguments += ["--dtype", settings.dtype, "--logprobs-mode", "processed_logprobs"]
    arguments += ["--worker-extension-cls", EXTENSION, *flags(settings.vllm.engine_options)]
    if lora is None:
        return Server(tuple(arguments), {"VLLM_SERVER_DEV_MODE": "1"})
    rank = engine_rank(lora.rank, keys.section)
    arguments += ["--enable-lora", "--max-lora-rank", str(rank), "--max-loras", str(adapters)]
    return Server(tuple(arguments), {"VLLM_ALLOW_RUNTIME_LORA_UPDATING": "1"})


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
