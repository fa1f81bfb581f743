"""Agents at work rather than in training: opened from a configuration, and with what they have learned."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import torch

from orchestai.agents.agent_factory import AgentFactory
from orchestai.agents.agent_rollout import AgentRollout
from orchestai.agents.policies import open_policies
from orchestai.agents.registry import find
from orchestai.agents.trainer import open_stage
from orchestai.config.agents import AgentConfig
from orchestai.lm.backends.synced import local_backend


@asynccontextmanager
async def open_agents(config: AgentConfig, checkpoint: Path | None) -> AsyncIterator[AgentRollout]:
    """Load the models of roles that are not frozen, start sandbox and workers, and close them at the end.

    Args:
        checkpoint: a folder of trained agents; None takes the models as they are.

    Raises:
        UserError: the workflow, a model or a worker is not there.
    """
    workflow_class = find(config.agents.workflow)
    policies = open_policies(config, workflow_class.roles, checkpoint=checkpoint)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    for policy in policies.learning.values():
        policy.to(device)
    async with open_stage(config, workflow_class, config.agents.workflow_args) as stage:
        backends = {name: local_backend(policy.policy) for name, policy in policies.learning.items()}
        factory = AgentFactory(config, policies, backends, stage.pool)
        phase2 = config.training.phase2_rl
        rollout = AgentRollout(stage.workflow, factory, policies, phase2, concurrency=config.agents.concurrency)
        try:
            yield rollout
        finally:
            await rollout.stop()
