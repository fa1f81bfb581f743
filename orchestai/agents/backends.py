"""Opens what samples each policy of a run of agents, as the section `model` says."""

from __future__ import annotations

from pathlib import Path

import torch

from orchestai.agents.policies import Policies
from orchestai.config import LoraConfig
from orchestai.config.agents import AgentConfig
from orchestai.lm.backends.synced import Processes, SyncedBackend, open_backend

_CANARY = "Count from one to twenty in words."


def open_backends(
    config: AgentConfig, policies: Policies, processes: Processes, sync_dir: Path
) -> dict[str, SyncedBackend]:
    """A backend for each policy that learns, by its name.

    Raises:
        UserError: as `open_backend` says.
    """
    return {
        name: open_backend(
            config.model,
            policy.policy,
            torch.tensor(policies.chat_renderers[name].render([{"role": "user", "content": _CANARY}])),
            processes,
            section="model",
            name=name,
            temperature=config.training.phase2_rl.temperature,
            sync_dir=sync_dir,
            dtype=config.model.dtype,
            lora=(config.model.lora or LoraConfig()) if policy.has_adapter else None,
            longest=None,
        )
        for name, policy in policies.learning.items()
    }
