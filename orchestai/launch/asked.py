"""What a training is asked for: which one it is, and its configuration as the command that trains will read it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from orchestai.agents import registry
from orchestai.agents.recipes import comlrl_keys, mt_grpo_keys
from orchestai.agents.recipes.shorthand import load_agent_config, named_paths
from orchestai.config import BackendConfig, Config, load_config, read
from orchestai.config.agents import AgentConfig
from orchestai.config.train_aliases import SHORT
from orchestai.errors import UserError
from orchestai.lm.model_keys import AGENTS, PLANNER

PHASE1, PHASE2 = "phase1", "phase2"
_HERE = ("localhost", "127.0.0.1", "::1")


def asked(path: Path, words: Sequence[str] = (), train: str | None = None) -> tuple[str, Config | AgentConfig]:
    """What is trained, `phase1`, `phase2` or a workflow of agents, and its configuration.

    Args:
        words: overrides.
        train: which of these; without, what the file is for: the workflow that it names, or phase 2 of a planner.

    Raises:
        UserError: the configuration cannot be read, something in it is wrong, or there is no such workflow.
    """
    if train == PHASE1:
        return PHASE1, load_config(path, words)
    if train == PHASE2 or (train is None and not _is_of_agents(path)):
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
    if settings is not None and settings.backend in ("vllm", "ray"):
        needs[f"{section}.backend={settings.backend}"] = settings.backend
    if config.execution.backend == "ray":
        needs["execution.backend=ray"] = "ray"
    return needs


def _sampling(config: Config | AgentConfig) -> tuple[BackendConfig | None, str]:
    """What says who samples, and its section; None where no language model is trained."""
    if isinstance(config, AgentConfig):
        return config.model, AGENTS.section
    return (config.planner.language if config.planner.kind == "language" else None), PLANNER.section


def _is_of_agents(path: Path) -> bool:
    values = read(path)
    return "agents" in values or mt_grpo_keys.is_recipe(values) or comlrl_keys.is_comlrl(values)
