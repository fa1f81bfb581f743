"""A workflow of agents: a plain asyncio program in which roles act on a task and what they did is rewarded."""

from __future__ import annotations

import asyncio
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import ClassVar

import torch

from orchestai.agents.conversation import Act, Budget, BudgetExceededError, ChatModel, Conversation, Sampled
from orchestai.config.section import Section
from orchestai.errors import InfrastructureError, UserError
from orchestai.outcome import Outcome, Reward, RewardPart, Scored, Unscorable, reward_number
from orchestai.sandbox import Sandbox
from orchestai.tasks import program_source as source
from orchestai.tasks.programs import fenced
from orchestai.tasks.task import Task
from orchestai.text.spoken import enclosed, spoken
from orchestai.training.rl.batch import rows_of
from orchestai.types import Episode, TokenDecisions, Trajectory, Turn

_UNPRINTABLE = re.compile(r"[^\t\n\x20-\x7e\x80-\U0010ffff]|[\ud800-\udfff]")


def tagged(text: str, tag: str) -> str | None:
    """What stands in the last `<tag>...</tag>`, stripped; None where there is none."""
    found = all_tagged(text, tag)
    return found[-1] if found else None


def all_tagged(text: str, tag: str) -> list[str]:
    """What stands in each `<tag>...</tag>`, stripped, in order."""
    opening, closing = (re.compile(f"<{slash}{tag}>", re.IGNORECASE) for slash in ("", "/"))
    return [content.strip() for content in enclosed(spoken(text), opening, closing)]


def verdict(text: str, yes: str, no: str) -> bool | None:
    """Which of two words the last `<verdict>` says; None where it says neither."""
    said = (tagged(text, "verdict") or "").casefold()
    return {yes.casefold(): True, no.casefold(): False}.get(said)


def verdict_reward(said: bool | None, score: float) -> float:
    """What a verdict on something of `score` in [0, 1] is worth: the score if it approves, its complement if not.

    The expectation is largest for whoever approves exactly what is worth more than a half. No verdict is worth nothing.
    """
    return 0.0 if said is None else score if said else 1 - score


def program(text: str) -> str:
    """The Python in a reply (its fence, if it has one), under the imports of well-known names that it forgot."""
    return source.with_imports(fenced(text) or text)


def shown(text: str, limit: int) -> str:
    """`text` as another role may read it: no thoughts or control characters, and at most `limit` characters, the middle
    cut out."""
    text = _UNPRINTABLE.sub("�", spoken(text))
    if len(text) <= limit:
        return text
    kept = max(limit // 2, 1)
    return f"{text[:kept]}\n[{len(text) - 2 * kept} characters left out]\n{text[-kept:]}"


class AttemptContext:
    """One attempt at a task: opens its roles' conversations and turns them into an episode.

    Args:
        chat_model: makes the chat model behind a role, anew for each of its conversations.
        budget: what they may spend together; nothing is limited without.
        weights: of named rewards; others weigh 1.

    Attributes:
        conversations: those begun so far, in order of time.
        answer: what answers the task, as far as the workflow has come; where it does not say, the last act's text.
    """

    def __init__(
        self,
        task: Task,
        chat_model: Callable[[str], ChatModel],
        budget: Budget | None = None,
        weights: Mapping[str, float] | None = None,
    ) -> None:
        self.task = task
        self.budget, self._weights = budget or Budget(), weights or {}
        self.conversations: list[Conversation] = []
        self.answer: str | None = None
        self._acts: list[Act] = []
        self._chat_model = chat_model

    def conversation(self, role: str, system: str = "") -> Conversation:
        """A new conversation of a role, which remembers nothing of its others."""
        begun = Conversation(role, self._chat_model(role), self.budget, self._acts)
        if system:
            begun.tell(system, "system")
        self.conversations.append(begun)
        return begun

    def episode(
        self, outcome: Outcome | float | Mapping[str, float], metrics: Mapping[str, float] | None = None
    ) -> Episode:
        """What happened, with a trajectory per conversation, and what it was worth.

        Args:
            outcome: the reward; or several by name, of those that the workflow names among its `rewards`, whose
                weighted sum is the reward. One that does not apply to this attempt may be left out, or None.
            metrics: further figures, beside turns, tokens, what workers billed, rows beyond one per trajectory, named
                rewards and each role's mean reward.
        """
        trajectories = tuple(
            Trajectory(
                role=conversation.role,
                policy=conversation.chat_model.policy,
                turns=tuple(
                    _turn(act, act.sampled)
                    for act in conversation.acts
                    if conversation.chat_model.trainable and act.sampled is not None and len(act.sampled.completion)
                ),
                reward=conversation.reward,
                trainable=conversation.chat_model.trainable,
                transcript=tuple((message["role"], message["content"]) for message in conversation.messages),
            )
            for conversation in self.conversations
        )
        if isinstance(outcome, Mapping):
            applies = {name: reward_number(value) for name, value in outcome.items() if value is not None}
            parts = {name: RewardPart(value, self._weights.get(name, 1.0)) for name, value in applies.items()}
            reward: Reward | Unscorable = Reward.of(parts)
        elif isinstance(outcome, Unscorable):
            reward = outcome
        else:
            reward = Reward(reward_number(outcome.value if isinstance(outcome, Scored) else outcome))
        earned: dict[str, list[float]] = {}
        for talk in self.conversations:
            own = [talk.reward] if talk.reward is not None else [act.reward for act in talk.acts]
            earned.setdefault(talk.role, []).extend(one for one in own if one is not None)
        acts = [act for talk in self.conversations for act in talk.acts]
        cost_usd = sum(act.cost_usd for act in acts)
        measured: dict[str, float] = {
            "turns": len(acts),
            "tokens": sum(act.tokens for act in acts),
            "forked_rows": sum(len(rows_of(t.turns)) - 1 for t in trajectories if t.turns),
            "budget_exceeded": 0.0,
            **({"cost_usd": cost_usd} if cost_usd else {}),
            **{f"{role}_reward": sum(rewards) / len(rewards) for role, rewards in earned.items() if rewards},
            **(reward.figures if isinstance(reward, Reward) else {}),
        }
        return Episode(
            task_id=self.task.task_id,
            group_id=self.task.task_id,
            trajectories=trajectories,
            reward=reward,
            metrics={**measured, **(metrics or {})},
            text="\n\n".join(
                f"[{talk.role}] {message['role']}: {message['content']}"
                for talk in self.conversations
                for message in talk.messages
            ),
            answer=spoken((self._acts[-1].text if self._acts else "") if self.answer is None else self.answer),
        )


class AgentWorkflow(ABC):
    """A program that agents carry out together. The same object serves training, evaluation and single runs.

    A subclass names its `roles` and its settings, and writes `run`. A role learns if the configuration lets it.

    Args:
        args: the settings (`agents.workflow_args`).
        sandbox: where programs run that the agents wrote.

    Attributes:
        roles: the names under which `run` begins conversations.
        rewards: the names of the rewards that `run` gives, where it gives several.
        Args: the settings that the workflow knows.
    """

    roles: ClassVar[tuple[str, ...]]
    rewards: ClassVar[tuple[str, ...]] = ()
    Args: ClassVar[type[Section]] = Section

    def __init__(self, args: Section, sandbox: Sandbox) -> None:
        self.args = args
        self.sandbox = sandbox

    @abstractmethod
    async def run(self, task: Task, context: AttemptContext) -> Episode:
        """Let the agents act, reward them, and return `context.episode(...)`."""

    async def run_group(self, task: Task, group: Sequence[AttemptContext]) -> list[Episode]:
        """One attempt by each; a workflow whose attempts depend on each other overrides it."""
        return list(await asyncio.gather(*(attempt(self, task, agents) for agents in group)))


async def attempt(workflow: AgentWorkflow, task: Task, context: AttemptContext) -> Episode:
    """`run`; what agents make that spend their budget is invalid, and what none is to blame for is unscorable."""
    try:
        episode = await workflow.run(task, context)
    except BudgetExceededError:
        return replace(context.episode(0.0, {"success": 0.0, "budget_exceeded": 1.0}), valid=False)
    except InfrastructureError as error:
        return context.episode(Unscorable.of(error))
    if not isinstance(episode, Episode):
        name = type(workflow).__name__
        raise UserError(f"{name}.run gave {type(episode).__name__}; let it return context.episode(reward)")
    if isinstance(episode.reward, Reward) and (strange := sorted(set(episode.reward.parts) - set(workflow.rewards))):
        known = f"only {', '.join(workflow.rewards)}" if workflow.rewards else "no named rewards"
        name = type(workflow).__name__
        raise UserError(f"{name}.run: {name} has no reward {strange[0]!r} in its `rewards`, {known}")
    return episode


def _turn(act: Act, sampled: Sampled) -> Turn:
    nothing = torch.zeros_like(sampled.logp)
    return Turn(
        decisions=TokenDecisions(sampled.prompt, sampled.completion),
        logp=sampled.logp,
        mask=nothing == 0,
        value=nothing,
        step=nothing.long() - 1,
        policy_version=sampled.policy_version,
        reward=act.reward,
        group=act.group,
        truncated=not act.ended,
        token_limit=sampled.token_limit,
        text=act.text,
    )
