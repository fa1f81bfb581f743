"""The chat model of each role: a policy, sampled in batches over all conversations, or a frozen worker."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping

from orchestai.agents.budget import Budget
from orchestai.agents.chat_models import PolicyChatModel, PooledChatModel, Seeds, ServedPolicy, WorkerChatModel
from orchestai.agents.conversation import ChatModel
from orchestai.agents.policies import Policies
from orchestai.agents.workflow import AttemptContext
from orchestai.config.agents import AgentConfig
from orchestai.errors import UserError
from orchestai.lm.backends.base import SampleSettings
from orchestai.lm.backends.synced import SyncedBackend
from orchestai.lm.batcher import Batcher
from orchestai.tasks.task import Task
from orchestai.training.rl.monitoring.episode_metrics import describe_policies
from orchestai.workers.generation import SamplingParams
from orchestai.workers.pool import WorkerPool


class AgentFactory:
    """Makes the chat models of each attempt's roles.

    Args:
        backends: what samples each of the learning policies, by name.
        pool: of the frozen roles; None where there are none.

    Attributes:
        weights: held while policies are sampled, and by whoever changes their weights.
    """

    def __init__(
        self,
        config: AgentConfig,
        policies: Policies,
        backends: Mapping[str, SyncedBackend],
        pool: WorkerPool | None = None,
    ) -> None:
        self.weights = asyncio.Lock()
        self._config = config
        self._policies = policies
        self._pool = pool
        self._backends = backends
        self._served = {
            name: ServedPolicy(
                name,
                Batcher(backend, weights=self.weights, max_rows=config.model.max_rows),
                policies.chat_renderers[name],
                policies.learning[name].policy.context,
            )
            for name, backend in backends.items()
        }

    def context(self, task: Task, *, seed: int, attempt: int, temperature: float) -> AttemptContext:
        """The context of one attempt at a task.

        Args:
            seed: of all that they sample.
            attempt: its number among those at the same task; workers that do not learn answer each anew.
            temperature: of those that learn; 0 takes the likeliest token.

        The agents' `conversation` raises UserError for a role that the workflow does not name among its `roles`.
        """
        seeds = Seeds(seed)

        def chat_model(role: str) -> ChatModel:
            if role in self._config.agents.frozen:
                return self._frozen(self._config.agents.frozen[role], attempt)
            return self._learning(role, seeds, temperature)

        agents = self._config.agents
        return AttemptContext(task, chat_model, Budget(agents.budget), agents.reward_weights)

    async def sync(self, versions: Mapping[str, int]) -> dict[str, float]:
        """See `Collector.sync`."""
        figures: dict[str, dict[str, float]] = {}
        for name, backend in self._backends.items():
            figures[name] = await backend.sync(versions[name], beside=[self._backends[other] for other in figures])
        return describe_policies(figures)

    async def close(self) -> None:
        """Sample no more."""
        for served in self._served.values():
            await served.batcher.close()

    def _learning(self, role: str, seeds: Seeds, temperature: float) -> ChatModel:
        name = self._policies.of_role.get(role)
        if name is None:
            known = ", ".join([*self._policies.of_role, *self._config.agents.frozen])
            raise UserError(
                f"the workflow begins a conversation of {role!r}, but its roles are {known}; add it to them"
            )
        settings = SampleSettings(temperature, self._config.model.max_new_tokens)
        return PolicyChatModel(self._served[name], role, settings, seeds)

    def _frozen(self, name: str, attempt: int) -> ChatModel:
        assert self._pool is not None
        assert self._config.workers is not None
        if name in self._config.workers.pool:
            return WorkerChatModel(name, self._pool, name, attempt)
        params = SamplingParams(max_new_tokens=self._config.model.max_new_tokens)
        return PooledChatModel(name, self._pool.generator(name), params, attempt)
