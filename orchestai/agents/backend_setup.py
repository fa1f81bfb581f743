"""Opens what samples each policy of a run of agents, as the section `model` says."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import torch

from orchestai.agents.policies import Policies
from orchestai.config.agents import AgentConfig
from orchestai.lm.backends.canary import CanaryProbe
from orchestai.lm.backends.synced import Processes, SyncedBackend, SyncedPolicy, open_backend

_CANARY = "Count from one to twenty in words."


@asynccontextmanager
async def open_backends(
    config: AgentConfig, policies: Policies, processes: Processes, sync_dir: Path
) -> AsyncIterator[dict[str, SyncedBackend]]:
    """A backend for each policy that learns, by its name; all are closed at the end, and where one does not open.

    Raises:
        UserError: as `open_backend` says.
    """
    async with AsyncExitStack() as stack:
        opened: dict[str, SyncedBackend] = {}
        for name, policy in policies.learning.items():
            opened[name] = open_backend(
                config.model,
                SyncedPolicy(
                    policy.policy,
                    name,
                    config.model.dtype,
                    config.adapters if policy.has_adapter else None,
                    of=len(policies.learning),
                ),
                CanaryProbe(
                    torch.tensor(policies.chat_renderers[name].render([{"role": "user", "content": _CANARY}])),
                    config.training.phase2_rl.temperature,
                ),
                processes,
                section="model",
                sync_dir=sync_dir,
                place=config.execution,
            )
            stack.push_async_callback(opened[name].close)
        yield opened
