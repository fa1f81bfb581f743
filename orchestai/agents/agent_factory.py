"""The chat models of roles, policies or frozen workers, and the episodes in which a workflow attempts tasks."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from orchestai.agents.conversation import Act, Budget, BudgetExceededError, ChatModel, Sampled
from orchestai.agents.policies import Policies
from orchestai.agents.workflow import AgentWorkflow, AttemptContext
from orchestai.config import RlConfig
from orchestai.config.agents import AgentConfig
from orchestai.errors import UserError
from orchestai.execution.reward import invalid_margin
from orchestai.lm.backends.base import SampleSettings
from orchestai.lm.backends.synced import SyncedBackend
from orchestai.lm.batcher import Batcher
from orchestai.lm.chat_rendering import IncrementalChatRenderer
from orchestai.tasks.task import Task
from orchestai.training.rl.advantages import rank_invalid
from orchestai.training.rl.monitoring import describe_policies
from orchestai.training.rl.policy import Episodes, with_scores
from orchestai.training.rl.rollout import row_seed
from orchestai.types import Episode, Message
from orchestai.workers.base import Request, WorkerError
from orchestai.workers.generation import Generator, Prompt, SamplingParams
from orchestai.workers.pool import WorkerPool


class Seeds:
    """Seeds of the acts of one attempt. An act's depends on its role and on what it answers to, and on nothing else
    that happens meanwhile; only where one role answers the same twice, on which comes first.

    Args:
        attempt: tells attempts apart (`rollout.row_seed`).
    """

    def __init__(self, attempt: int) -> None:
        self._attempt = attempt
        self._asked: Counter[bytes] = Counter()

    def next(self, role: str, prompt: Tensor) -> int:
        """63 bits for an act of `role` after `prompt`, (tokens,) int64."""
        digest = hashlib.sha256(f"{self._attempt}/{role}/".encode() + prompt.numpy().tobytes())
        asked = digest.digest()
        digest.update(str(self._asked[asked]).encode())
        self._asked[asked] += 1
        return int.from_bytes(digest.digest()[:8], "big") >> 1


@dataclass(frozen=True)
class ServedPolicy:
    """A policy as all its conversations use it.

    Attributes:
        context: most tokens of a prompt with what is written after it; None where the model sets no limit.
    """

    name: str
    batcher: Batcher
    renderer: IncrementalChatRenderer
    context: int | None = None


class PolicyChatModel:
    """Speaks with the weights of a policy: tokens in, tokens out. One per conversation.

    The next prompt is the last one, what was written after it, and the tokens of what was told since
    (`IncrementalChatRenderer`). It is written anew where a workflow has changed messages that were said before.

    Args:
        settings: its limit of tokens holds for every act.
        seeds: of the attempt.
    """

    trainable = True

    def __init__(self, served: ServedPolicy, role: str, settings: SampleSettings, seeds: Seeds) -> None:
        self.policy = served.name
        self._served = served
        self._role = role
        self._settings = settings
        self._seeds = seeds
        self._said: list[Message] = []
        self._read: list[int] = []
        self._written: list[int] = []
        self._ended = False

    async def say(self, messages: Sequence[Message], max_new_tokens: int | None = None) -> Act:
        """Sample the next turn; see `ChatModel.say`.

        Raises:
            BudgetExceededError: the messages fill the model's context.
            UserError: the template refuses the messages, or the engine the request.
        """
        known, context = len(self._said), self._served.context
        if known and list(messages[:known]) == self._said:
            ids = self._served.renderer.extend(self._read, self._written, self._ended, messages, known)
        else:
            ids = self._served.renderer.render(messages)
        if context is not None and len(ids) >= context:
            raise BudgetExceededError(f"{self._role}: {len(ids)} tokens, but the model reads {context}")
        settings = self._settings
        if max_new_tokens is not None and max_new_tokens < settings.max_new_tokens:
            settings = replace(settings, max_new_tokens=max_new_tokens)
        prompt = torch.tensor(ids)
        completion, version = await self._served.batcher.sample(prompt, self._seeds.next(self._role, prompt), settings)
        written = completion.ids.tolist()
        text = self._served.renderer.decode(written[:-1] if completion.ended else written)
        self._said = [*messages, {"role": "assistant", "content": text}]
        self._read, self._written, self._ended = ids, written, completion.ended
        sampled = Sampled(prompt, completion.ids, completion.logp, version, settings.max_new_tokens)
        return Act(text, completion.ended, len(written), sampled)


class PooledChatModel:
    """Speaks with a model that does not learn, a key of `workers.models`.

    Args:
        sample: tells attempts apart; with the same, equal questions get equal answers.
    """

    trainable = False

    def __init__(self, policy: str, generator: Generator, params: SamplingParams, sample: int = 0) -> None:
        self.policy = policy
        self._generator = generator
        self._params = params
        self._sample = sample

    async def say(self, messages: Sequence[Message], max_new_tokens: int | None = None) -> Act:
        """Ask the model; see `ChatModel.say`. A tool's result is told as the user's message, since servers differ.

        A model that cannot answer (the messages are too long for it, or its provider refuses them) says why.
        """
        limit = min(max_new_tokens or self._params.max_new_tokens, self._params.max_new_tokens)
        params = replace(self._params, max_new_tokens=limit)
        chat = tuple(
            ("user" if message["role"] == "tool" else message["role"], message["content"]) for message in messages
        )
        try:
            completion = await self._generator.generate(Prompt(chat), params, self._sample)
        except WorkerError as error:
            return Act(f"error: {error}", True, error.usage.completion_tokens)
        return Act(completion.text, completion.completion_tokens < limit, completion.completion_tokens)


class WorkerChatModel:
    """Speaks with a worker of the pool, which reads the system's message as its role and the others as its instruction.

    Args:
        sample: see `PooledChatModel`.
    """

    trainable = False

    def __init__(self, policy: str, pool: WorkerPool, worker: str, sample: int = 0) -> None:
        self.policy = policy
        self._pool = pool
        self._worker = worker
        self._sample = sample

    async def say(self, messages: Sequence[Message], max_new_tokens: int | None = None) -> Act:
        """Ask the worker; see `ChatModel.say`. One that cannot answer says why; its limit of tokens is its own."""
        role = "\n\n".join(message["content"] for message in messages if message["role"] == "system")
        rest = [message for message in messages if message["role"] != "system"]
        text = rest[0]["content"] if len(rest) == 1 else "\n\n".join(f"{m['role']}: {m['content']}" for m in rest)
        try:
            answer = await self._pool.answer(self._worker, Request(text, role=role, sample=self._sample))
        except WorkerError as error:
            return Act(f"error: {error}", True, error.usage.completion_tokens, cost_usd=error.usage.cost_usd)
        return Act(answer.text, True, answer.completion_tokens, cost_usd=answer.cost_usd)


class AgentFactory:
    """Makes the chat models of each attempt's roles.

    Args:
        backends: what samples each of the learning policies, by name.
        pool: of the frozen roles; None where there are none.
    """

    def __init__(
        self,
        config: AgentConfig,
        policies: Policies,
        backends: Mapping[str, SyncedBackend],
        pool: WorkerPool | None = None,
    ) -> None:
        one_at_a_time = asyncio.Lock()  # policies may share weights
        self._config = config
        self._policies = policies
        self._pool = pool
        self.backends = backends
        self._served = {
            name: ServedPolicy(
                name,
                Batcher(backend, lock=one_at_a_time),
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
        seeds, agents = Seeds(seed), self._config.agents

        def chat_model(role: str) -> ChatModel:
            if role in agents.frozen:
                frozen = agents.frozen[role]
                assert self._pool is not None and self._config.workers is not None  # noqa: PT018
                if frozen in self._config.workers.pool:
                    return WorkerChatModel(frozen, self._pool, frozen, attempt)
                params = SamplingParams(max_new_tokens=self._config.model.max_new_tokens)
                return PooledChatModel(frozen, self._pool.generator(frozen), params, attempt)
            name = self._policies.of_role.get(role)
            if name is None:
                known = ", ".join([*self._policies.of_role, *agents.frozen])
                raise UserError(
                    f"the workflow begins a conversation of {role!r}, but its roles are {known}; add it to them"
                )
            settings = SampleSettings(temperature, self._config.model.max_new_tokens)
            return PolicyChatModel(self._served[name], role, settings, seeds)

        return AttemptContext(task, chat_model, Budget(agents.budget), agents.reward_weights)

    async def close(self) -> None:
        """Sample no more."""
        for served in self._served.values():
            await served.batcher.close()


class AgentRollout:
    """Lets a workflow attempt tasks (a `Collector`).

    Args:
        concurrency: attempts at a time.
    """

    def __init__(
        self, workflow: AgentWorkflow, factory: AgentFactory, policies: Policies, config: RlConfig, *, concurrency: int
    ) -> None:
        self._workflow = workflow
        self._factory = factory
        self._policies = policies
        self._config = config
        self._concurrency = concurrency

    async def explore(self, tasks: Sequence[Task], *, update: int) -> Episodes:
        """`num_generations` attempts at each task, scored where learning needs more than what the sampler said."""
        config = self._config
        started = time.perf_counter()
        groups = await self._attempt(
            tasks,
            config.num_generations,
            config.temperature,
            lambda task, attempt: row_seed(config.seed, update, task.task_id, attempt),
        )
        seconds = {"acting": time.perf_counter() - started}
        if config.algorithm == "PPO" or config.sampler_correction is not None:
            started = time.perf_counter()
            by_id, flat = {task.task_id: task for task in tasks}, [e for group in groups for e in group]
            scored = await asyncio.to_thread(with_scores, flat, by_id, self._policies.learning, config)
            episodes = iter(scored)
            groups = [[next(episodes) for _ in group] for group in groups]
            seconds["scoring"] = time.perf_counter() - started
        return Episodes(groups, seconds)

    async def exploit(self, tasks: Sequence[Task]) -> Episodes:
        """One attempt per task with the likeliest words; these episodes have no turns."""
        started = time.perf_counter()
        groups = await self._attempt(tasks, 1, 0.0, lambda task, attempt: 0)
        kept = [
            [
                replace(episode, trajectories=tuple(replace(t, turns=()) for t in episode.trajectories))
                for episode in group
            ]
            for group in groups
        ]
        return Episodes(kept, {"acting": time.perf_counter() - started})

    async def sync(self, versions: Mapping[str, int]) -> dict[str, float]:
        """See `Collector.sync`."""
        figures: dict[str, dict[str, float]] = {}
        backends = self._factory.backends
        for name, backend in backends.items():
            figures[name] = await backend.sync(versions[name], beside=[backends[other] for other in figures])
        return describe_policies(figures)

    async def stop(self) -> None:
        """Attempt no more."""
        await self._factory.close()

    async def _attempt(
        self, tasks: Sequence[Task], attempts: int, temperature: float, seed: Callable[[Task, int], int]
    ) -> list[list[Episode]]:
        """Every task's attempts, so many tasks at a time as `concurrency` allows.

        Those that spent their budget are worth less than all others at the task.
        """
        room = asyncio.Semaphore(max(1, self._concurrency // attempts))

        async def group(task: Task) -> list[Episode]:
            async with room:
                agents = [
                    self._factory.context(task, seed=seed(task, k), attempt=k, temperature=temperature)
                    for k in range(attempts)
                ]
                return rank_invalid(await self._workflow.run_group(task, agents), invalid_margin(1.0))

        jobs = [asyncio.ensure_future(group(task)) for task in tasks]
        try:
            return await asyncio.gather(*jobs)
        finally:
            for job in jobs:
                job.cancel()
            await asyncio.gather(*jobs, return_exceptions=True)
