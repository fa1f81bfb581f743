"""What a training is asked for: which one it is, and its configuration as the command that trains will read it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from orchestai.agents import comlrl_keys, mt_grpo_keys, registry
from orchestai.agents.shorthand import load_agent_config
from orchestai.config import Config, load_config, read
from orchestai.config.agents import AgentConfig
from orchestai.config.aliases.train import SHORT
from orchestai.errors import UserError

PHASE1, PHASE2 = "phase1", "phase2"


def what_is_trained(path: Path, words: Sequence[str] = ()) -> str:
    """What a configuration is for: a workflow of agents, or phase 2 of a planner.

    Args:
        words: overrides of agents' configuration.

    Raises:
        UserError: it cannot be read, or names no workflow.
    """
    values = read(path)
    if not ("agents" in values or mt_grpo_keys.is_recipe(values) or comlrl_keys.is_comlrl(values)):
        return PHASE2
    if workflow := load_agent_config("", path, words).agents.workflow:
        return workflow
    raise UserError(f"--config {path}: agents.workflow is not set; set it, or say --train WORKFLOW")


def load(train: str, path: Path, words: Sequence[str] = ()) -> Config | AgentConfig:
    """The configuration of a training.

    Args:
        train: `phase1`, `phase2`, or a workflow of agents.

    Raises:
        UserError: it cannot be read, something in it is wrong, or there is no such workflow.
    """
    if train == PHASE1:
        return load_config(path, words)
    if train == PHASE2:
        return load_config(path, SHORT.replace(words))
    if train not in registry.WORKFLOWS and ":" not in train:
        known = ", ".join((PHASE1, PHASE2, *registry.WORKFLOWS))
        raise UserError(f"--train {train}: there are {known}; or write module:Class")
    return load_agent_config(train, path, words)
