"""Agents as a worker: they attempt a subtask as they attempt a task, trained or as a configuration describes them."""

from __future__ import annotations

import asyncio
import time
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path

from orchestai.agents.agent_factory import AgentRollout
from orchestai.agents.policies import read_metadata
from orchestai.agents.registry import find
from orchestai.agents.trainer import open_agents
from orchestai.config import WorkerConfig, load
from orchestai.config.agents import AgentConfig
from orchestai.errors import InfrastructureError
from orchestai.outcome import Unscorable
from orchestai.planner.files import last_of
from orchestai.tasks.task import Task
from orchestai.workers.base import Answer, Request, Usage, Worker, WorkerCard, WorkerError, WorstCase
from orchestai.workers.prompting.prompts import Chat
from orchestai.workers.registry import BuildContext

_UNJUDGED = frozenset({"task", "scorer"})
"""Why an attempt has no reward where nobody knows the right answer."""


class AgentsWorker:
    """Lets the agents of a workflow attempt each request once, with the likeliest words.

    An attempt costs the flat price, or what the workers of its roles billed, if that is more.

    Args:
        config: of the agents.
        checkpoint: a folder of trained agents; None takes the models as they are.
    """

    def __init__(
        self, card: WorkerCard, config: AgentConfig, checkpoint: Path | None, price_per_call_usd: float
    ) -> None:
        self.card = card
        self._config = config
        self._checkpoint = checkpoint
        self._price = price_per_call_usd
        self._opening = asyncio.Lock()
        self._opened = AsyncExitStack()
        self._rollout: AgentRollout | None = None

    def worst_case(self, request: Request) -> WorstCase:
        return WorstCase(cost_usd=self._price)

    async def answer(self, request: Request) -> Answer:
        rollout = await self._agents()
        words = Chat().prompt(replace(request, role="")).messages[-1][1]
        if request.role:
            words = f"{request.role}\n\n{words}"
        name = request.signature.name if request.signature else "task_func"
        task = Task(task_id="request", suite="request", instruct_prompt=words, entry_point=name)
        began = time.perf_counter()
        episode = (await rollout.exploit([task])).groups[0][0]
        if isinstance(episode.reward, Unscorable) and episode.reward.kind not in _UNJUDGED:
            raise InfrastructureError(episode.reward.kind, episode.reward.reason)
        usage = Usage(
            requests=1,
            completion_tokens=int(episode.metrics.get("tokens", 0)),
            cost_usd=max(self._price, episode.metrics.get("cost_usd", 0.0)),
            latency_ms=(time.perf_counter() - began) * 1000,
        )
        if episode.metrics.get("budget_exceeded") or not episode.answer:
            raise WorkerError("the agents spent their budget (agents.budget) before they had an answer", usage)
        return Answer(
            text=Chat().answers(request, episode.answer)[0],
            prompt=task.instruction,
            completion_tokens=usage.completion_tokens,
            cost_usd=usage.cost_usd,
            latency_ms=usage.latency_ms,
        )

    async def check(self) -> None:
        """Raise `UserError` if a model or a worker of theirs is not there; loads the models."""
        await self._agents()

    async def close(self) -> None:
        await self._opened.aclose()

    async def _agents(self) -> AgentRollout:
        async with self._opening:
            if self._rollout is None:
                self._rollout = await self._opened.enter_async_context(open_agents(self._config, self._checkpoint))
            return self._rollout


def build_agents(card: WorkerCard, config: WorkerConfig, context: BuildContext) -> Worker:
    """Agents of a folder that training wrote, with the configuration that it holds, or of a configuration's file."""
    assert config.agents is not None
    path = config.agents
    if path.suffix in (".yaml", ".yml"):
        described, checkpoint = load(AgentConfig, path), None
    else:
        checkpoint = last_of(path)
        described = AgentConfig.of_saved(read_metadata(checkpoint)["config"])
    find(described.agents.workflow)
    worker = AgentsWorker(card, described, checkpoint, config.price_per_call_usd)
    context.resources.append(worker)
    return worker
